"""The dropout rate of a weight: KL(alpha), and the alpha that is best for a given weight.

The data's part of the negative ELBO is linear in alpha, so that alpha minimises c alpha + KL(alpha), where c is half
the squared ratio of the weight to its standard error: a problem in one dimension for each feature.
"""

from typing import Any, Protocol

import numpy as np
import scipy.optimize
import scipy.special
import torch

from varnet.nn.priors import loguniform

LOW, HIGH = -20.0, 20.0  # log alpha stays between them


class Divergence(Protocol):
    def kl(self, log_alpha: np.ndarray) -> np.ndarray:
        """KL(q || p) per weight."""

    def slope(self, log_alpha: np.ndarray) -> np.ndarray:
        """dKL / dlog(alpha)."""

    def best(self, c: np.ndarray) -> np.ndarray:
        """The log alpha that minimises c alpha + KL(alpha)."""


class LogUniform:
    """Variational dropout: p(log|w|) = const."""

    def kl(self, log_alpha: np.ndarray) -> np.ndarray:
        return loguniform.exact(torch.from_numpy(np.asarray(log_alpha, float))).numpy()

    def slope(self, log_alpha: np.ndarray) -> np.ndarray:
        u = np.exp(-log_alpha / 2) / np.sqrt(2)
        return -u * scipy.special.dawsn(u)

    def best(self, c: np.ndarray) -> np.ndarray:
        """Newton's method for 2 u^3 D(u) = c, u = (2 alpha)^-1/2, in logarithms, where the slope is within 2 and 4."""
        log_c = np.log(np.maximum(c, np.finfo(float).tiny))
        log_u = np.where(log_c < 0, (log_c - np.log(2)) / 4, log_c / 2)
        for _ in range(8):
            u = np.exp(log_u)
            dawson = scipy.special.dawsn(u)
            excess = np.log(2) + 3 * log_u + np.log(dawson) - log_c
            log_u = log_u - excess / (3 + u * (1 - 2 * u * dawson) / dawson)
        return np.clip(-2 * log_u - np.log(2), LOW, HIGH)


class ARD:
    """Gaussian KL: p(w) = N(0, its best variance), KL = log(1 + 1/alpha) / 2."""

    def kl(self, log_alpha: np.ndarray) -> np.ndarray:
        return np.logaddexp(0, -np.asarray(log_alpha, float)) / 2

    def slope(self, log_alpha: np.ndarray) -> np.ndarray:
        return -scipy.special.expit(-log_alpha) / 2

    def best(self, c: np.ndarray) -> np.ndarray:
        """The root of alpha (1 + alpha) = 1/(2c)."""
        c = np.maximum(c, np.finfo(float).tiny)
        return np.clip(-np.log(c) - np.log1p(np.sqrt(1 + 2 / c)), LOW, HIGH)


def log_alpha_at(divergence: Divergence, z2: float) -> float:
    """The log alpha of a feature, orthogonal to the others, whose least-squares weight is z standard errors from 0.

    There mu = (least squares) / (1 + alpha), so that c = z^2 / (2 (1 + alpha)^2); with ARD alpha = 1/(z^2 - 1). For
    both priors alpha is infinite up to z = 1: one feature of pure noise in three has a finite alpha.
    """

    def excess(log_alpha: Any) -> Any:
        return np.log(-2 * divergence.slope(log_alpha)) + 2 * np.logaddexp(0, log_alpha) - log_alpha - np.log(z2)

    return HIGH if excess(HIGH) > 0 else LOW if excess(LOW) < 0 else scipy.optimize.brentq(excess, LOW, HIGH)
