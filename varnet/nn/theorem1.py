"""Theorem 1: a layer of large alpha is a variance layer. How close it is, and the conversion."""

import math
import numbers
from typing import NamedTuple

from torch import Tensor, nn

from varnet.base.checks import Check
from varnet.nn import stale
from varnet.nn.layers import Variational, layers_of
from varnet.nn.tying import twins

THRESHOLD = Check(
    lambda v: isinstance(v, numbers.Real) and not isinstance(v, bool) and not math.isnan(v),
    "a number, which log alpha is compared with, e.g. 5",
)


class Convergence(NamedTuple):
    """How close a layer is to its zero-mean version."""

    name: str
    log_alpha: float  # mean over the weights that are not 0; infinite if all are
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
    """The maximum mean discrepancy between q and its zero-mean version, over functions bounded by 1.

    The proof of Theorem 1 shifts each weight by 1/sqrt(alpha_i) standard deviations, then turns all of them into one
    direction: two normal distributions whose means are d apart, d^2 = sum 1/alpha_i (D / alpha where alpha is shared).
    Differs from the paper: it bounds their distance by sqrt(2/pi) d, which has no limit; it is 2 erf(d / sqrt 8) <= 2.
    """
    distance = math.sqrt(float((-_log_alpha_of_the_rest(layer)).exp().sum()))
    return 2 * math.erf(distance / math.sqrt(8))


def collapse(module: nn.Module, threshold: float = 5.0) -> Report:
    """Turn the layers with every log alpha at or above the threshold into zero-mean layers, in place.

    mu -> 0 and sigma^2 = alpha mu^2 is kept. A weight that is 0 already, pruned or removed by the threshold of its own
    layer, has no say in this and remains 0. Reports alpha and the MMD bound of every variational layer, converted or
    not. A converted layer learns `sigma`: make the optimizer anew.
    """
    THRESHOLD("threshold", threshold)
    found = layers_of(module)
    report = Report(_convergence(name, layer, threshold) for name, layer in found.items())
    firsts = twins(found.values())
    for row, layer in zip(report, found.values(), strict=True):
        if row.collapsed and not layer.param.zero_mean:
            if layer in firsts:  # whose posterior it has, and goes on to have
                layer.share(firsts[layer])
            else:
                layer.drop_mean()
            stale.look_again()
    return report


def _convergence(name: str, layer: Variational, threshold: float) -> Convergence:
    log_alpha = _log_alpha_of_the_rest(layer)
    mean, lowest = (float(log_alpha.mean()), float(log_alpha.min())) if len(log_alpha) else (math.inf, math.inf)
    return Convergence(name, mean, lowest, mmd_bound(layer), lowest >= threshold)


def _log_alpha_of_the_rest(layer: Variational) -> Tensor:
    """One value for each weight that is not 0."""
    log_alpha = layer.param.log_alpha_of(layer).detach().double()
    return log_alpha.expand(layer.weight_shape)[~layer.removed()]
