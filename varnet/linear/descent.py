"""Alternate the updates of q until it settles, drop the features that are noise, and go on with the rest."""

import warnings
from typing import Protocol

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from varnet.base.checks import FINITE
from varnet.errors import ConfigError
from varnet.linear.alpha import Divergence, log_alpha_at

SETTLED = 0.1  # standard errors: the largest change of a weight in one step at which features may be dropped


class Problem(Protocol):
    """A data set, standardised, and q(w) for the features that are left."""

    mu: np.ndarray
    log_alpha: np.ndarray

    def step(self) -> float:
        """Update q; the largest change of a weight, in standard errors."""

    def keep(self, features: np.ndarray) -> None:
        """Go on with these features only: a mask."""

    def negative_elbo(self) -> float: ...


def descend(
    problem: Problem, threshold: float, tol: float, max_iter: int
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Which features are left, log alpha of all features (as it was when dropped), the negative ELBO by step.

    A feature that was dropped does not come back.
    """
    left = np.arange(len(problem.mu))
    log_alpha, history = problem.log_alpha.copy(), []
    for _ in range(max_iter):
        change = problem.step()
        history.append(problem.negative_elbo())
        log_alpha[left] = problem.log_alpha
        relevant = problem.log_alpha <= threshold
        if change < SETTLED and not relevant.all():
            problem.keep(relevant)
            left = left[relevant]
        elif change < tol:
            return left, log_alpha, history
    warnings.warn(
        f"no convergence in max_iter={max_iter} steps (change {change:.2g}, tol={tol}): raise one of them",
        ConvergenceWarning,
        stacklevel=4,
    )
    return left, log_alpha, history


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


def threshold_of(threshold: float | str, divergence: Divergence, objects: int, features: int) -> float:
    """The log alpha above which a feature is noise.

    "ebic": the alpha of a weight z standard errors from 0 with z^2 = log N + 2 log D, the extended Bayesian information
    criterion of Chen and Chen (2008). The slides do not give theirs. Variational dropout itself would keep z > 1.
    """
    if isinstance(threshold, str):
        if threshold != "ebic":
            raise ConfigError("is not known: use a log alpha, infinity for none, or ebic", "threshold", threshold)
        return log_alpha_at(divergence, max(4.0, np.log(objects) + 2 * np.log(features)))
    return threshold if threshold == np.inf else float(FINITE("threshold", threshold))
