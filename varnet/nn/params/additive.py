"""A mean and a standard deviation for every weight: the parameterization of sparse variational dropout."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from varnet.nn.params.base import Parameterization, as_parameter
from varnet.nn.safe import log_square


class Additive(Parameterization):
    """N(mu_ij, sigma_ij^2); alpha = sigma^2 / mu^2 is derived. Starts from log_sigma, or from log_alpha and mu."""

    name = "additive"
    alpha_per_weight = True
    without = ("learn",)

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            if self.log_sigma is None:
                log_sigma2 = self.start(torch.Size(), weight) + log_square(weight)
            else:
                log_sigma2 = torch.full_like(weight, 2 * self.log_sigma)
        return {"mu": as_parameter(weight), "log_sigma2": nn.Parameter(log_sigma2)}

    def std(self, q: Any) -> Tensor:
        return (0.5 * q.log_sigma2).exp()

    def variance(self, q: Any) -> Tensor:
        return q.log_sigma2.exp()

    def log_alpha_of(self, q: Any) -> Tensor:
        """Below the clip its gradient passes: the clip is not in the samples, and a weight that began next to 0 and
        grew, its sigma still tiny, would never be brought back by the KL."""
        free = q.log_sigma2 - log_square(q.mu)
        if self.clip is None:
            return free
        below = (free.detach() < self.clip[0]) & free.detach().isfinite()
        return self.clipped(free) + torch.where(below, free - free.detach(), 0.0)

    def erase(self, q: Any, chosen: Tensor) -> None:
        super().erase(q, chosen)
        q.log_sigma2.data.masked_fill_(chosen, -math.inf)
