"""Alternate the updates of q until it settles, drop the features that are noise, and go on with the rest."""

import warnings
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from varnet.base.checks import FINITE
from varnet.errors import ConfigError
from varnet.linear.alpha import HIGH, Divergence, log_alpha_at

SETTLED = 0.1  # standard errors: the largest change of a weight in one step at which features may be dropped


class Problem(Protocol):
    """A data set, standardised, and q(w) for the features that are in use."""

    mu: np.ndarray
    log_alpha: np.ndarray

    def step(self) -> float:
        """Update q; the largest change of a weight, in standard errors."""

    def use(self, features: np.ndarray, mu: np.ndarray, log_alpha: np.ndarray) -> None:
        """Go on with these features only: their columns."""

    def refit(self) -> None:
        """The weights anew, for features that came back."""

    def scores(self) -> np.ndarray:
        """Of every feature, in use or not: the square of how many standard errors from 0 its weight would be if it
        alone were to explain what is left."""

    def negative_elbo(self) -> float: ...


class Limits(NamedTuple):
    """Of log alpha: a feature above `drop` is noise, one that would be at or below `come_back` is not."""

    drop: float
    come_back: float


def descend(
    problem: Problem, divergence: Divergence, limits: Limits, forward: bool, tol: float, max_iter: int
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Which features are left, log alpha of all features (as it was when dropped), the negative ELBO by step.

    Features that explain the same are weak one by one, and are dropped together. So the one that would now explain most
    comes back, once: of equal columns one stays. `forward`: no feature is in use at first, and all come in this way.
    """
    features = len(problem.mu)
    left, log_alpha, history = np.arange(features), problem.log_alpha.copy(), []
    came_back = np.zeros(features, bool)
    if forward:
        left = left[:0]
        log_alpha[:] = HIGH
        problem.use(left, problem.mu[left], problem.log_alpha[left])
    for _ in range(max_iter):
        change = problem.step()
        history.append(problem.negative_elbo())
        log_alpha[left] = problem.log_alpha
        relevant = problem.log_alpha <= limits.drop
        if change < SETTLED and not relevant.all():
            left = left[relevant]
            problem.use(left, problem.mu[relevant], problem.log_alpha[relevant])
        elif change < SETTLED and (best := _missed(problem, divergence, limits, left, came_back)) is not None:
            came_back[best] = True
            left = np.append(left, best)
            problem.use(left, np.append(problem.mu, 0.0), np.append(problem.log_alpha, 0.0))
            problem.refit()
        elif change < tol:
            return left, log_alpha, history
    warnings.warn(
        f"no convergence in max_iter={max_iter} steps (change {change:.2g}, tol={tol}): raise one of them",
        ConvergenceWarning,
        stacklevel=4,
    )
    return left, log_alpha, history


def _missed(
    problem: Problem, divergence: Divergence, limits: Limits, left: np.ndarray, came_back: np.ndarray
) -> int | None:
    """The feature out of use that explains most of what is left, if that is more than noise would."""
    if len(left) == len(came_back):
        return None
    scores = np.where(came_back, 0.0, problem.scores())
    scores[left] = 0.0
    best = int(scores.argmax())
    if scores[best] > 1 and log_alpha_at(divergence, scores[best]) <= limits.come_back:
        return best
    return None


def ridge(x: np.ndarray, t: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """The w that minimises |x w - t|^2 + sum_d kappa_d w_d^2: (x'x + diag(kappa))^-1 x't.

    Differs from the slides, which subtract kappa. With more features than objects, kappa > 0, the same by the smaller
    system of the dual: w = kappa^-1 x' (I + x kappa^-1 x')^-1 t.
    """
    if x.shape[1] <= x.shape[0]:
        return solve_gram(x.T @ x, x.T @ t, kappa)
    scaled = x / kappa
    return scaled.T @ scipy.linalg.solve(np.eye(len(x)) + scaled @ x.T, t, assume_a="pos")


def solve_gram(gram: np.ndarray, moment: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """(gram + diag(kappa))^-1 moment."""
    if not len(moment):
        return np.zeros(0)
    return scipy.linalg.solve(gram + np.diag(kappa), moment, assume_a="pos")


def threshold_of(threshold: float | str, divergence: Divergence, objects: float, features: int) -> float:
    """The log alpha above which a feature is noise.

    "ebic": the alpha of a weight z standard errors from 0 with z^2 = log N + 2 log D, the extended Bayesian information
    criterion of Chen and Chen (2008). The slides do not give theirs. Variational dropout itself would keep z > 1.
    """
    if isinstance(threshold, str):
        if threshold != "ebic":
            raise ConfigError("is not known: use a log alpha, infinity for none, or ebic", "threshold", threshold)
        return log_alpha_at(divergence, max(4.0, np.log(objects) + 2 * np.log(features)))
    return threshold if threshold == np.inf else float(FINITE("threshold", threshold))


def limits_of(threshold: float | str, divergence: Divergence, objects: float, features: int) -> Limits:
    """Whatever the threshold, a feature comes back only for more than chance would give the best of them all."""
    drop = threshold_of(threshold, divergence, objects, features)
    return Limits(drop, min(drop, threshold_of("ebic", divergence, objects, features)))
