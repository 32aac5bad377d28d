"""The log-uniform prior of variational dropout, p(w) ~ 1/|w|, and three ways to its KL."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor

from varnet.base.checks import one_of
from varnet.nn import dawson
from varnet.nn.params import Parameterization
from varnet.nn.priors.base import C, Prior
from varnet.nn.registry import option
from varnet.nn.safe import half_softplus_minus, log_abs, safe_log


def kl(log_alpha: Tensor, estimator: str = "approx") -> Tensor:
    """KL(N(mu, alpha mu^2) || p(w) ~ 1/|w|) = E log|1 + sqrt(alpha) eps| - log(alpha)/2 + C. Eq. (8)"""
    return ESTIMATORS[estimator](log_alpha)


def approx(log_alpha: Tensor) -> Tensor:
    """Molchanov et al. (2017), eq. (14). Off by at most 0.0094 (at log alpha = -3.5), see tests/nn/test_prior.py."""
    return 0.63576 * torch.sigmoid(-(1.8732 + 1.48695 * log_alpha)) + half_softplus_minus(log_alpha)


def mc(log_alpha: Tensor) -> Tensor:
    """One noise sample per element: value and gradient unbiased. Written as log|c + eps|, stable at both ends.

    The gradient of log|c + eps| itself, 1/(c + eps), has no mean. Stein's identity gives one that has:
    d/dc E f(c + eps) = E eps (f(c + eps) - f(c)), whose standard deviation is below 1.4 for every alpha.
    """
    c = (-0.5 * log_alpha).exp()
    eps = torch.randn_like(c)
    value = log_abs(c + eps).detach()
    slope = eps * (value - safe_log(c.detach()))
    return value + slope * (c - c.detach()) + C


def exact(log_alpha: Tensor) -> Tensor:
    """The integral itself, by a table of its smooth part."""
    return dawson.look_up(log_alpha) + half_softplus_minus(log_alpha)


ESTIMATORS = {"approx": approx, "exact": exact, "mc": mc}


@dataclass(frozen=True)
class LogUniform(Prior):
    """p(w) ~ 1/|w|."""

    name = "loguniform"
    of_alpha = True
    estimator: str = option("approx", one_of(*ESTIMATORS))  # approx is the paper's

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.estimator == "exact":
            dawson.table()

    def values(self, param: Parameterization, q: Any, shape: Size) -> Tensor:
        log_alpha = param.log_alpha_of(q)
        return kl(log_alpha.expand(shape) if self.estimator == "mc" else log_alpha, self.estimator)
