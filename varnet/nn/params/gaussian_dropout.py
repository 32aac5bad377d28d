"""Gaussian dropout at a fixed rate: a baseline."""

import torch
from torch import Tensor

from varnet.nn.params.base import as_parameter
from varnet.nn.params.multiplicative import LayerWise


class GaussianDropout(LayerWise):
    """N(mu_ij, alpha mu_ij^2) with alpha = p / (1 - p) fixed."""

    name = "gaussian_dropout"

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        return {"mu": as_parameter(weight), "log_alpha": self.start(torch.Size(), weight)}
