"""Weights that a network can do without: by sigma in a variance layer, by signal-to-noise in any other (Figure 5)."""

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from varnet.base.checks import number, one_of
from varnet.errors import ConfigError
from varnet.evaluation import metrics
from varnet.evaluation.predictions import Batches, predict
from varnet.nn.layers import Variational, layers_of
from varnet.nn.names import select

CRITERIA = ("sigma", "snr")


def prune(model: nn.Module, fraction: float, layers: str | Iterable[str] = "all", by: str | None = None) -> nn.Module:
    """Copy a model and set this fraction of each chosen layer's weights to exactly 0, mean and variance.

    by="sigma" removes the weights of the smallest standard deviation, by="snr" those of the smallest |mean| / standard
    deviation; None: sigma where the means are 0 or alpha is the same for all weights, snr elsewhere.
    """
    number(0, 1)("fraction", fraction)
    if by is not None:
        one_of(*CRITERIA)("by", by)
    pruned = copy.deepcopy(model)
    found = layers_of(pruned)
    if not found:
        raise ValueError("the model has no variational layer to prune: make it variational first")
    with torch.no_grad():
        for name in select(layers, list(found)):
            _erase_smallest(name, found[name], fraction, by)
    return pruned


def _erase_smallest(name: str, layer: Variational, fraction: float, by: str | None) -> None:
    order = importance(layer, by, name).flatten().argsort(stable=True)
    chosen = torch.zeros(len(order), dtype=torch.bool, device=order.device)
    chosen[order[: round(fraction * len(order))]] = True
    layer.param.erase(layer, chosen.view(layer.weight_shape))


def importance(layer: Variational, by: str | None = None, name: str = "the layer") -> Tensor:
    """Importance of each weight: its variance, or the square of its signal-to-noise ratio."""
    posterior = layer.posterior()
    shared = layer.param.zero_mean or posterior.log_alpha.numel() == 1
    if layer.param.deterministic:
        raise ConfigError(f"layer {name!r} (param={layer.param.name}) has no noise: choose layers that have", "layers")
    if by == "snr" and shared:
        kind = f"layer {name!r} (param={layer.param.name}), which has the same ratio for all its weights"
        raise ConfigError(f"is invalid for {kind}: use sigma", "by", by)
    if by == "sigma" or shared:
        return posterior.variance
    return posterior.mean.square() / posterior.variance.clamp_min(torch.finfo(posterior.variance.dtype).tiny)


def pruning_curve(
    model: nn.Module,
    batches: Batches,
    fractions: Iterable[float],
    samples: int,
    layers: str | Iterable[str] = "all",
    by: str | None = None,
    seed: int = 0,
) -> list[dict[str, float]]:
    """Measure the accuracy of K samples and of mean propagation against the fraction that is removed."""
    rows = []
    for fraction in fractions:
        pruned = prune(model, fraction, layers, by)
        sampled = predict(pruned, batches, "sample", samples, seed=seed)
        det = predict(pruned, batches, "deterministic", seed=seed)
        rows.append(
            {
                "fraction": float(fraction),
                "acc_k": metrics.accuracy(sampled.log_probs, sampled.y),
                "acc_det": metrics.accuracy(det.log_probs, det.y),
            }
        )
    return rows
