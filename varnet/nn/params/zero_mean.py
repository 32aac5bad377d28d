"""The variance layer: weights whose mean is 0, so that all they know is in their variances."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from varnet.nn.params.base import Parameterization
from varnet.nn.safe import log_square


class ZeroMean(Parameterization):
    """theta_ij * noise with E noise = 0: a variance layer. Starts from log_sigma, or from theta = the weights.

    Differs from the paper's text, not from its runs: by default sigma itself is learned (option `learn`).
    """

    name = "zero_mean"
    zero_mean = True
    without = ("log_alpha", "clip")

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        sigma = weight.detach().clone() if self.log_sigma is None else torch.full_like(weight, math.exp(self.log_sigma))
        if self.learn == "sigma":
            return {"sigma": nn.Parameter(sigma.detach())}
        return {"log_sigma": nn.Parameter(0.5 * log_square(sigma.detach()))}

    def theta(self, q: Any) -> Tensor:
        return q.sigma if self.learn == "sigma" else q.log_sigma.exp()

    def mean(self, q: Any) -> Tensor:
        return torch.zeros_like(self.theta(q))

    def std(self, q: Any) -> Tensor:
        theta = self.theta(q)
        return theta / math.sqrt(3) if self.noise == "uniform" else theta  # Var U(-1, 1) = 1/3

    def log_alpha_of(self, q: Any) -> Tensor:
        return torch.full((), math.inf, dtype=self.theta(q).dtype, device=self.theta(q).device)

    def erase(self, q: Any, chosen: Tensor) -> None:
        learned, zero = (q.sigma, 0.0) if self.learn == "sigma" else (q.log_sigma, -math.inf)
        learned.data.masked_fill_(chosen, zero)
