"""Predictions where the likelihood is not that of classes: the mixture of what K samples say of a target.

The variance of the mixture has two parts: what each sample leaves open (aleatoric, the mean of the variances), and how
far the samples differ (epistemic, the variance of the means).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from varnet.base.checks import number
from varnet.evaluation.predictions import Batches, isolated, members_of, outputs_of
from varnet.evaluation.prefix import Sampler
from varnet.nn.layers import layers_of
from varnet.nn.likelihoods import Likelihood, LikelihoodLike, likelihood_of
from varnet.nn.modes import predicting, resample

HALVINGS = 60  # of an interval, to find a quantile


@dataclass(frozen=True, eq=False)
class Mixture:
    """Predictive distribution of N objects with D targets each, in double precision on the CPU."""

    y: Tensor  # (N, D)
    outputs: Tensor  # (K, N, O): of each sample, those of an ensemble's members one after the other
    likelihood: Likelihood
    members: int = 1  # of an ensemble

    @property
    def first(self) -> "Mixture":
        """The first sample alone, of each member of an ensemble."""
        return replace(self, outputs=self.outputs[:: len(self.outputs) // self.members])

    @property
    def mean(self) -> Tensor:
        """Mean of each target, (N, D)."""
        return self.likelihood.mean_of(self.outputs).mean(0)

    @property
    def aleatoric(self) -> Tensor:
        """Variance that more data would leave, (N, D)."""
        return self.likelihood.variance_of(self.outputs).mean(0)

    @property
    def epistemic(self) -> Tensor:
        """Variance by the weights, (N, D)."""
        return self.likelihood.mean_of(self.outputs).var(0, correction=0)

    @property
    def variance(self) -> Tensor:
        """Variance of each target, (N, D)."""
        return self.aleatoric + self.epistemic

    def log_prob(self) -> Tensor:
        """Log of the average probability (density) of each object's targets, (N,)."""
        logs = torch.stack([self.likelihood.log_prob(out, self.y) for out in self.outputs])
        return logs.logsumexp(0) - math.log(len(logs))

    def cdf(self, target: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Probability of less than each target, and of at most it, (N, D) each; of the true targets unless given."""
        below, up_to = self.likelihood.cdf(self.outputs, self.y if target is None else target)
        return below.mean(0), up_to.mean(0)

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Lower and upper end of the central interval of each target, (N, D) each."""
        number(0, 1, above=True, below=True)("level", level)
        return self._quantile((1 - level) / 2), self._quantile((1 + level) / 2)

    def _quantile(self, p: float) -> Tensor:
        """By halving: Cantelli's inequality says how far from the mean it can be."""
        mean, std = self.mean, self.variance.sqrt()
        low, high = mean - std * math.sqrt((1 - p) / p), mean + std * math.sqrt(p / (1 - p))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            enough = self.cdf(middle)[1] >= p
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        return high


def mixture(
    model: nn.Module,
    batches: Batches,
    likelihood: LikelihoodLike,
    mode: str = "sample",
    samples: int = 1,
    layers: str | Iterable[str] = "all",
    seed: int = 0,
    fold: int | None = None,
) -> Mixture:
    """Mix the predictive distributions of `samples` samples for each object, in a mode of varnet.nn.modes.

    The options are those of varnet.predict; likelihood as in varnet.negative_elbo, for an opened run its own.
    """
    chosen = _checked(likelihood)
    parts = []
    with isolated(seed), torch.no_grad(), predicting(model, mode, layers):
        samplers = [Sampler(member, fold) for member in members_of(model)]
        for x, y in batches:
            parts.append((y, [out for sampler in samplers for out in outputs_of(sampler, x, samples)]))
            chosen.check(parts[-1][1][0], y)
    return _joined(parts, chosen, len(samplers))


def weight_mixture(
    model: nn.Module, batches: Batches, likelihood: LikelihoodLike, draws: int, seed: int = 0, mode: str = "sample"
) -> Mixture:
    """Mix predictions of the whole set by single draws of the weights, made again for every batch from their seeds."""
    chosen = _checked(likelihood)
    parts = []
    with isolated(seed), torch.no_grad(), predicting(model, mode, sampling="weights"):
        seeds = torch.randint(2**31, (draws,)).tolist()
        sampler = Sampler(model)
        for x, y in batches:
            outs, found = sampler(x, draws), []
            for own in seeds:
                torch.manual_seed(own)
                if layers_of(model):
                    resample(model)
                found.append(next(outs))
            chosen.check(found[0], y)
            parts.append((y, found))
    return _joined(parts, chosen, 1)


def _checked(likelihood: LikelihoodLike) -> Likelihood:
    chosen = likelihood_of(likelihood)
    if chosen.classes:
        raise ValueError("likelihood=categorical is for varnet.predict, which averages probabilities: use that")
    return chosen


def _joined(parts: list[tuple[Tensor, list[Tensor]]], likelihood: Likelihood, members: int) -> Mixture:
    if not parts:
        raise ValueError("there are no batches to predict")
    outputs = torch.cat([torch.stack(outs).cpu().double() for _, outs in parts], 1)
    y = torch.cat([y for y, _ in parts]).cpu()
    return Mixture(y.double() if y.is_floating_point() else y, outputs, likelihood, members)
