"""Automatic relevance determination: the best Gaussian prior for each weight."""

from dataclasses import dataclass
from typing import Any

from torch import Size, Tensor

from varnet.nn.params import Parameterization
from varnet.nn.priors.base import Prior
from varnet.nn.safe import half_softplus_minus


def kl(log_alpha: Tensor) -> Tensor:
    """KL to N(0, (alpha + 1) mu^2): log(1 + 1/alpha) / 2.

    Differs from the paper: eq. (11) lacks the factor 1/2.
    """
    return half_softplus_minus(log_alpha)


@dataclass(frozen=True)
class ARD(Prior):
    """N(0, (alpha + 1) mu^2) for each weight."""

    name = "ard"
    of_alpha = True

    def values(self, param: Parameterization, q: Any, shape: Size) -> Tensor:
        return kl(param.log_alpha_of(q))
