"""A Gaussian prior of mean 0, its scale fixed or learned."""

import math
from dataclasses import dataclass
from typing import Any

from torch import Size, Tensor
from torch.nn import Parameter

from varnet.base.checks import SWITCH, number
from varnet.nn.params import Parameterization
from varnet.nn.priors.base import Prior
from varnet.nn.registry import option
from varnet.nn.safe import safe_log


def kl(mean: Tensor, variance: Tensor, scale: float | Tensor = 1.0) -> Tensor:
    """KL(N(mean, variance) || N(0, scale^2))."""
    ratio = variance / scale**2
    return 0.5 * (ratio + (mean / scale).square() - 1 - safe_log(ratio))


@dataclass(frozen=True)
class Gaussian(Prior):
    """N(0, scale^2)."""

    name = "gaussian"
    scale: float = option(1.0, number(0, above=True))  # standard deviation, or where it starts
    learn_scale: bool = option(False, SWITCH)  # one scale per layer (empirical Bayes), called log_scale in the layer

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        return {"log_scale": Parameter(weight.new_full((), math.log(self.scale)))} if self.learn_scale else {}

    def values(self, param: Parameterization, q: Any, shape: Size) -> Tensor:
        return kl(param.mean(q), param.variance(q), q.log_scale.exp() if self.learn_scale else self.scale)
