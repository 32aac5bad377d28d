"""Sparse variational dropout: how many weights are left below the threshold on log alpha (Molchanov et al. 2017)."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from varnet.nn.layers import Variational, layers_of

THRESHOLD = 3.0  # as published


def kept(layer: Variational, threshold: float | None = None) -> Tensor:
    """Tell which weights of a layer are below the threshold: the given one, the layer's own, or the published one."""
    own = layer.param.threshold if threshold is None else threshold
    with torch.no_grad():
        log_alpha = layer.param.log_alpha_of(layer)
        return (log_alpha < (THRESHOLD if own is None else own)).expand(layer.weight_shape)


def sparsity(model: nn.Module, threshold: float | None = None) -> dict[str, float]:
    """Measure the percentage of the weights of each variational layer that are removed."""
    return {name: 100 * (1 - float(kept(q, threshold).double().mean())) for name, q in layers_of(model).items()}


def compression(model: nn.Module, threshold: float | None = None) -> float:
    """Measure |W| / |W != 0| over the layers with random weights, without their biases. All removed: |W| itself."""
    masks = [kept(layer, threshold) for layer in layers_of(model).values()]
    return sum(m.numel() for m in masks) / max(1, sum(int(m.sum()) for m in masks))


def has_threshold(layers: Iterable[Variational]) -> bool:
    """Tell whether a layer takes weights above a threshold as 0."""
    return any(layer.param.threshold is not None for layer in layers)
