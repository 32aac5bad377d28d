"""Point estimates: a baseline."""

import math
from typing import Any

import torch
from torch import Tensor

from varnet.nn.params.base import Parameterization, as_parameter


class Deterministic(Parameterization):
    """w = mu, a point estimate: no noise and no KL."""

    name = "deterministic"
    deterministic = True
    without = ("log_alpha", "log_sigma", "clip", "learn")

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        return {"mu": as_parameter(weight)}

    def std(self, q: Any) -> Tensor:
        return torch.zeros_like(q.mu)

    def log_alpha_of(self, q: Any) -> Tensor:
        return torch.full((), -math.inf, dtype=q.mu.dtype, device=q.mu.device)
