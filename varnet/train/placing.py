"""Where a network is while it is trained: the device, and the memory format that suits it."""

import copy
import logging
import time
from collections.abc import Callable

import torch
from omegaconf import DictConfig
from torch import nn

log = logging.getLogger("varnet")
UNSURE = 2_000_000  # weights of convolutions from which on no rule held: processors and numbers of threads differ
IMAGES, STEPS = 32, 2  # of a measurement, in each memory format
GAIN = 1.1  # a change has to bring this much, so that noise in the clock does not decide


def use_channels_last(cfg: DictConfig, device: torch.device) -> bool:
    """By rule. Measured on CPU: faster for LeNet-5 and narrow VGG, slower for VGG at width 1. On CUDA tensor cores want
    it. A user's own network may flatten images by view(), which this format does not allow."""
    if cfg.channels_last != "auto":
        return cfg.channels_last
    if cfg.model.name == "custom":
        return False
    if device.type == "cpu":
        return not (cfg.model.name == "vgg" and cfg.model.width >= 1)
    return device.type == "cuda" and cfg.precision != "fp32"


def placed(model: nn.Module, cfg: DictConfig, device: torch.device) -> nn.Module:
    """On the device, in the memory format that suits it by rule."""
    return laid_out(model.to(device), use_channels_last(cfg, device))


def laid_out(model: nn.Module, channels_last: bool) -> nn.Module:
    return model.to(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


def unsure(model: nn.Module, cfg: DictConfig, device: torch.device) -> bool:
    """Whether a measurement is worth its seconds: large convolutions on a CPU."""
    weights = sum(p.numel() for p in model.parameters() if p.dim() == 4)
    free = cfg.channels_last == "auto" and cfg.model.name != "custom"
    return free and device.type == "cpu" and weights >= UNSURE


def measured(
    model: nn.Module, x: torch.Tensor, by_rule: bool, autocast: Callable, clock: Callable[[], float] = time.perf_counter
) -> bool:
    """Whether channels-last is faster for steps on x here and now; the rule's word where both are about as fast. The
    model and the random numbers of the run stay as they are."""
    with torch.random.fork_rng([]):
        seconds = {last: _seconds(copy.deepcopy(model), x, last, autocast, clock) for last in (True, False)}
    faster = (not by_rule) if seconds[by_rule] > GAIN * seconds[not by_rule] else by_rule
    log.info(
        "a step in channels-last takes %.2f times one in the usual memory format here: using %s",
        seconds[True] / seconds[False], "channels-last" if faster else "the usual one",
    )  # fmt: skip
    return faster


def _seconds(model: nn.Module, x: torch.Tensor, last: bool, autocast: Callable, clock: Callable[[], float]) -> float:
    """The faster one of some steps, after one to warm up."""
    model, x = (
        laid_out(model, last),
        x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format),
    )
    found = []
    for _ in range(STEPS + 1):
        start = clock()
        with autocast():
            out = model(x)
        out.float().square().mean().backward()
        found.append(clock() - start)
    return min(found[1:])
