"""Counts: the network says the logarithm of the rate."""

from dataclasses import dataclass

import torch
from torch import Tensor

from varnet.nn.likelihoods.base import Likelihood, of_objects


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts 0, 1, ... of any type, log rates of the same shape."""

    name = "poisson"

    def log_prob(self, out: Tensor, target: Tensor) -> Tensor:
        count = target.to(out.dtype)
        return of_objects(count * out - out.exp() - torch.lgamma(count + 1))

    def mean_of(self, out: Tensor) -> Tensor:
        return out.exp()

    def variance_of(self, out: Tensor) -> Tensor:
        return out.exp()

    def cdf(self, out: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        count = target.floor()
        rate = out.exp().expand(torch.broadcast_shapes(out.shape, count.shape))
        most = _at_most(count, rate)
        return torch.where(target == count, _at_most(count - 1, rate), most), most

    def check_type(self, target: Tensor) -> None:
        """Of any type: the values say it."""

    def check_values(self, target: Tensor) -> None:
        if not bool(((target >= 0) & (target == target.floor()) & target.isfinite()).all()):
            raise self.unfit(target, "some values are no counts: use 0, 1, 2, ..., or likelihood=gaussian")


def _at_most(count: Tensor, rate: Tensor) -> Tensor:
    """P(k <= count) = Q(count + 1, rate), the regularised upper incomplete gamma function."""
    return torch.where(count < 0, 0.0, torch.special.gammaincc((count + 1).clamp_min(1).expand_as(rate), rate))
