"""Theorem 1: a layer of large alpha is a variance layer. How close it is, and the conversion."""

import math
from typing import NamedTuple

import torch
from torch import nn

from varnet.nn.layers import Variational, layers_of


class Convergence(NamedTuple):
    """How close a layer is to its zero-mean version."""

    name: str
    log_alpha: float  # mean over the layer
    log_alpha_min: float
    mmd_bound: float
    collapsed: bool


class Report(list[Convergence]):
    """Prints as a table."""

    def __str__(self) -> str:
        lines = [f"{'layer':<24}{'log alpha':>12}{'min':>10}{'MMD bound':>12}  zero-mean"]
        for row in self:
            numbers = f"{row.log_alpha:>12.2f}{row.log_alpha_min:>10.2f}{row.mmd_bound:>12.3g}"
            lines.append(f"{row.name:<24}{numbers}  {'yes' if row.collapsed else 'no'}")
        return "\n".join(lines)


def mmd_bound(layer: Variational) -> float:
    """Bound on the maximum mean discrepancy between q and its zero-mean version.

    Theorem 1 has one alpha: sqrt(2 D / pi) / sqrt(alpha). Its proof shifts each weight by 1/sqrt(alpha_i) standard
    deviations, so with different alphas D / alpha becomes the sum of 1/alpha_i.
    """
    log_alpha = layer.param.log_alpha_of(layer).detach().double()
    total = (-log_alpha).exp().sum() * (layer.weight_shape.numel() / log_alpha.numel())
    return math.sqrt(2 / math.pi * float(total))


def collapse(module: nn.Module, threshold: float = 5.0) -> Report:
    """Turn the layers with every log alpha at or above the threshold into zero-mean layers, in place.

    mu -> 0 and sigma^2 = alpha mu^2 is kept. Reports alpha and the MMD bound of every variational layer, converted or
    not. A converted layer learns `sigma`: make the optimizer anew.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or math.isnan(threshold):
        raise ValueError(f"threshold={threshold!r} is not a number; it is compared with log alpha, e.g. threshold=5")
    report = Report()
    for name, layer in layers_of(module).items():
        log_alpha = layer.param.log_alpha_of(layer).detach()
        lowest = float(log_alpha.min())
        row = Convergence(name, float(log_alpha.mean()), lowest, mmd_bound(layer), lowest >= threshold)
        if row.collapsed and not layer.param.zero_mean:
            with torch.no_grad():
                layer.drop_mean()
        report.append(row)
    return report
