"""Numbers of predictive distributions (varnet.mixture): error, likelihood, calibration of their intervals.

Coverage is the part of the targets inside the central interval of a level. A count lies partly inside where the
distribution steps over an end: the part of its own probability that is inside is what counts (the mean of the
randomised transform of Czado et al. 2009).
"""

import math

import torch
from torch import Tensor, nn

from varnet.evaluation.metrics import BINS
from varnet.evaluation.mixtures import Mixture, mixture
from varnet.evaluation.predictions import Batches, is_stochastic
from varnet.nn.layers import layers_of
from varnet.nn.likelihoods import Likelihood

LEVEL = 0.95  # of the intervals whose coverage is reported
LEVELS = tuple(round(0.05 * i, 2) for i in range(1, 20))  # at which calibration is looked at


def rmse(found: Mixture) -> float:
    """Root of the mean squared error of the mean, over objects and targets."""
    return math.sqrt(float((found.mean - found.y).square().mean()))


def nll(found: Mixture) -> float:
    """Mean negative log-likelihood of an object, all its targets together."""
    return -float(found.log_prob().mean())


def coverage(found: Mixture, level: float = LEVEL) -> float:
    """Part of the targets inside their central interval of this level, in %."""
    return coverages(found, (level,))[0]


def coverages(found: Mixture, levels: tuple[float, ...] = LEVELS) -> list[float]:
    """The same for several levels."""
    below, up_to = found.cdf()
    return [100 * float(_inside(below, up_to, level).mean()) for level in levels]


def _inside(below: Tensor, up_to: Tensor, level: float) -> Tensor:
    """How much of [below, up_to] lies in the middle of [0, 1]; NaN where the prediction is."""
    low, high = (1 - level) / 2, (1 + level) / 2
    width = up_to - below
    part = (up_to.clamp_max(high) - below.clamp_min(low)).clamp_min(0) / width.clamp_min(1e-30)
    point = ((low <= up_to) & (up_to <= high)).to(part.dtype) + 0 * up_to
    return torch.where(width > 0, part, point)


def calibration(found: Mixture) -> float:
    """Mean of |coverage - level| over levels of 5 to 95 %, in %: 0 is perfect."""
    pairs = zip(coverages(found), LEVELS, strict=True)
    return sum(abs(covered - 100 * level) for covered, level in pairs) / len(LEVELS)


def accuracy(found: Mixture) -> float:
    """Part of the labels that are right, in %."""
    right = ((found.mean > 0.5) == (found.y > 0.5)).double()
    return 100 * float(right.masked_fill(found.mean.isnan(), math.nan).mean())


def brier(found: Mixture) -> float:
    """Mean squared difference of label and probability: 0 is perfect, 1 the worst."""
    return float((found.mean - found.y).square().mean())


def ece(found: Mixture, bins: int = BINS) -> float:
    """|share of labels - mean probability| averaged over bins of probability."""
    p, y = found.mean.flatten(), found.y.flatten().double()
    index = torch.bucketize(p, torch.linspace(0, 1, bins + 1, dtype=p.dtype)[1:-1])
    gaps = [abs(float((p - y)[index == b].sum())) for b in index.unique().tolist()]
    return sum(gaps) / len(p) if not bool(p.isnan().any()) else math.nan


MEASURES = {
    "acc": accuracy, "rmse": rmse, "nll": nll, "coverage": coverage, "calibration": calibration, "brier": brier,
    "ece": ece,
}  # fmt: skip


def summary(found: Mixture) -> dict[str, float]:
    """Every number that the likelihood has, and the two parts of the uncertainty as standard deviations."""
    numbers = {key: MEASURES[key](found) for key in found.likelihood.measures()}
    if "rmse" in numbers:
        numbers["aleatoric"] = math.sqrt(float(found.aleatoric.mean()))
        numbers["epistemic"] = math.sqrt(float(found.epistemic.mean()))
    return numbers


def evaluate(
    model: nn.Module, batches: Batches, samples: int, seed: int, fold: int | None, likelihood: Likelihood
) -> dict[str, float | None]:
    """Measure what the likelihood has in every mode; None where a mode has no meaning."""
    found = layers_of(model).values()
    det = mixture(model, batches, likelihood, "deterministic", seed=seed)
    sampled = (
        mixture(model, batches, likelihood, "sample", samples, seed=seed, fold=fold) if is_stochastic(model) else det
    )
    zero_mean = None
    if found:
        every = all(layer.param.zero_mean for layer in found)
        zero_mean = (
            sampled if every else mixture(model, batches, likelihood, "zero_mean", samples, seed=seed, fold=fold)
        )
    shown = {"det": det, "1": sampled.first, "k": sampled, "zero_mean_k": zero_mean}
    return {
        f"{key}_{mode}": None if one is None else MEASURES[key](one)
        for key in likelihood.measures()
        for mode, one in shown.items()
    }
