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
        if (fixed := self._fixed) is not None:
            return -0.5 * of_objects((target - out).square() / fixed + (math.log(2 * math.pi) + math.log(fixed)))
        mean, log_variance = out.chunk(2, -1)
        error = (target - mean).square()
        return -0.5 * of_objects(error * (-log_variance).exp() + log_variance + math.log(2 * math.pi))

    def mean_of(self, out: Tensor) -> Tensor:
        return out if self._fixed is not None else out.chunk(2, -1)[0]

    def variance_of(self, out: Tensor) -> Tensor:
        fixed = self._fixed
        return out.chunk(2, -1)[1].exp() if fixed is None else torch.full_like(out, fixed)

    def cdf(self, out: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        below = torch.special.ndtr((target - self.mean_of(out)) / self.variance_of(out).sqrt())
        return below, below

    def outputs(self, targets: int) -> int:
        return 2 * targets if self.variance == PREDICTED else targets

    def head(self, targets: int) -> nn.Module | None:
        return LearnedVariance(targets) if self.variance == LEARNED else None

    def check(self, out: Tensor, target: Tensor) -> None:
        if self._fixed is not None:
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
    def _fixed(self) -> float | None:
        """The variance where it is a number; None where the outputs have its logarithm."""
        return None if isinstance(self.variance, str) else self.variance


class LearnedVariance(nn.Module):
    """The log variance of each target behind the outputs, the same for all objects: a network ends in it."""

    def __init__(self, targets: int = 1, variance: float = 1.0) -> None:
        """variance: at the start"""
        super().__init__()
        self.log_variance = nn.Parameter(torch.full((targets,), math.log(variance)))

    def forward(self, out: Tensor) -> Tensor:
        return torch.cat([out, self.log_variance.expand_as(out)], -1)  # in float32 behind outputs in fewer bits
