"""Gaussian noise of the targets: regression, the variance fixed, learned or predicted."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from varnet.base.checks import SWITCH, Check, number
from varnet.nn.likelihoods.base import Likelihood, of_objects
from varnet.nn.likelihoods.standardised import standardised
from varnet.nn.registry import option

LEARNED, PREDICTED = "learned", "predicted"
_FIXED = number(0, above=True)
VARIANCE = Check(
    lambda v: v in (LEARNED, PREDICTED) or _FIXED.fits(v), f"{LEARNED}, {PREDICTED}, or a finite number above 0"
)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """N(mean, variance) of each target.

    With a fixed variance the outputs are the means, in the shape of the targets. Otherwise they are (N, 2 D): means,
    then log variances; the network predicts these, or ends in LearnedVariance, which has one for each target.
    """

    name = "gaussian"
    variance: float | str = option(1.0, VARIANCE)  # a number, learned or predicted
    standardise: bool = option(True, SWITCH)  # in a run: the variance is then in units of the training targets' own

    def log_prob(self, out: Tensor, target: Tensor) -> Tensor:
        mean, log_variance = self._moments(out)
        error = (target - mean).square()
        if isinstance(log_variance, float):
            return -0.5 * of_objects(error / self.variance + (math.log(2 * math.pi) + log_variance))
        return -0.5 * of_objects(error * (-log_variance).exp() + log_variance + math.log(2 * math.pi))

    def mean_of(self, out: Tensor) -> Tensor:
        return self._moments(out)[0]

    def variance_of(self, out: Tensor) -> Tensor:
        mean, log_variance = self._moments(out)
        return torch.full_like(mean, self.variance) if isinstance(log_variance, float) else log_variance.exp()

    def cdf(self, out: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        below = torch.special.ndtr((target - self.mean_of(out)) / self.variance_of(out).sqrt())
        return below, below

    def outputs(self, targets: int) -> int:
        return 2 * targets if self.variance == PREDICTED else targets

    def head(self, targets: int) -> nn.Module | None:
        return LearnedVariance(targets) if self.variance == LEARNED else None

    def check(self, out: Tensor, target: Tensor) -> None:
        if self._fixed:
            super().check(out, target)
            return
        self.check_type(target)
        self.check_outputs(out)
        wanted = (*target.shape[:-1], 2 * target.shape[-1]) if target.dim() > 1 else "(N, 2) for targets (N, 1)"
        if tuple(out.shape) != wanted:
            end = ", e.g. by varnet.nn.LearnedVariance behind the network" if self.variance == LEARNED else ""
            why = f"outputs have shape {tuple(out.shape)}: give means and log variances, {wanted}{end}"
            raise self.unfit(target, why)

    def fitted(self, target: Tensor) -> Likelihood:
        return standardised(self, target) if self.standardise else self

    @property
    def _fixed(self) -> bool:
        return self.variance not in (LEARNED, PREDICTED)

    def _moments(self, out: Tensor) -> tuple[Tensor, Tensor | float]:
        """Means and log variances."""
        if self._fixed:
            return out, math.log(self.variance)
        mean, log_variance = out.chunk(2, -1)
        return mean, log_variance


class LearnedVariance(nn.Module):
    """The log variance of each target behind the outputs, the same for all objects: a network ends in it."""

    def __init__(self, targets: int = 1, variance: float = 1.0) -> None:
        """variance: at the start"""
        super().__init__()
        self.log_variance = nn.Parameter(torch.full((targets,), math.log(variance)))

    def forward(self, out: Tensor) -> Tensor:
        return torch.cat([out, self.log_variance.expand_as(out)], -1)  # in float32 behind outputs in fewer bits
