"""Where a network is while it is trained: the device, and the memory format that suits it."""

import torch
from omegaconf import DictConfig
from torch import nn


def use_channels_last(cfg: DictConfig, device: torch.device) -> bool:
    """Measured on CPU: faster for LeNet-5 and narrow VGG, slower for VGG at width 1. On CUDA tensor cores want it."""
    if cfg.channels_last != "auto":
        return cfg.channels_last
    if device.type == "cpu":
        return not (cfg.model.name == "vgg" and cfg.model.width >= 1)
    return device.type == "cuda" and cfg.precision != "fp32"


def placed(model: nn.Module, cfg: DictConfig, device: torch.device) -> nn.Module:
    """On the device, in the memory format that suits it."""
    layout = torch.channels_last if use_channels_last(cfg, device) else torch.contiguous_format
    return model.to(device).to(memory_format=layout)
