"""Does a row say what was published? Two one-sided tests (TOST) at 5 % each, with margins that were stated beforehand.

reproduced     the 90 % interval of the mean over seeds lies within the margins of the published number
contradicted   it lies outside of them
not shown      it does neither, or there is one seed, which has no interval
"""

import functools
import math
import statistics
from collections.abc import Sequence

LEVEL = 0.05  # of each one-sided test
ABOVE, FINE, COARSE = 98.0, 0.3, 0.5  # points of accuracy: margins above and below 98 %
# An accuracy at chance is that of one class for all: on MNIST 8.92 to 11.35 %. Unlike the margins above, this one was
# set when 9.80 against a published 11.30 was known.
CONSTANT, OF_CONSTANT = 12.0, 2.5
FACTOR = 1.5  # of ELBO, KL, data term and compression
RATIOS = ("elbo", "data_term", "kl", "compression")
POINTS = ("acc_", "train_acc", "error", "sparsity")


def margins(metric: str, published: float) -> tuple[float, float] | None:
    """The interval around a published number that counts as the same; None for a metric that has no margin."""
    if metric in RATIOS:
        low, high = sorted((published / FACTOR, published * FACTOR))
        return low, high
    if not metric.startswith(POINTS):
        return None
    accuracy = published if metric.startswith(("acc_", "train_acc")) else None
    if accuracy is not None and accuracy < CONSTANT:
        margin = OF_CONSTANT
    else:
        right = 100 - published if metric == "error" else published
        margin = FINE if right > ABOVE else COARSE
    return published - margin, published + margin


def interval(mean: float, std: float, n: int) -> tuple[float, float]:
    """The 90 % interval of a mean over n > 1 seeds with this standard deviation of the sample."""
    reach = _quantile(n - 1) * std / math.sqrt(n)
    return mean - reach, mean + reach


@functools.cache
def _quantile(degrees: float) -> float:
    from scipy import stats

    return float(stats.t.ppf(1 - LEVEL, degrees))


def verdict(metric: str, published: float | None, mean: float | None, std: float | None, n: int) -> str | None:
    """The verdict; None where nothing was published or the metric has no margin."""
    around = None if published is None else margins(metric, published)
    if around is None or mean is None:
        return None
    if std is None or n < 2:
        return "not shown"
    return {True: "reproduced", False: "contradicted", None: "not shown"}[_within(interval(mean, std, n), around)]


def _within(found: tuple[float, float], around: tuple[float, float]) -> bool | None:
    """Whether an interval lies within the margins; False: outside of them, None: neither."""
    if around[0] <= found[0] and found[1] <= around[1]:
        return True
    return False if found[1] < around[0] or found[0] > around[1] else None


def alike(metric: str, first: Sequence[float], second: Sequence[float]) -> bool | None:
    """Whether two samples of runs have one mean, up to the margins around that of the first: two one-sided tests of the
    difference, whose variances need not be equal (Welch). None: not shown, or there is no margin to show it by."""
    if min(len(first), len(second)) < 2 or (around := margins(metric, center := statistics.fmean(first))) is None:
        return None
    parts = [statistics.variance(values) / len(values) for values in (first, second)]
    difference, spread = statistics.fmean(second) - center, sum(parts)
    reach = 0.0
    if spread:
        sizes = (len(first), len(second))
        degrees = spread**2 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
        reach = _quantile(degrees) * math.sqrt(spread)
    return _within((center + difference - reach, center + difference + reach), around)
