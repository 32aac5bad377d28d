"""Local reparameterization as the textbook has it, to be read beside the paper; the layers compute it in lrt_fast.

Weights w_ij ~ N(mu_ij, sigma_ij^2), independent of each other, make the output of a layer normal: its mean and its
variance are two products. Noise is drawn for the output, a new one for every object, instead of for the weights.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-16  # added to the variance under the square root, as in the paper's runs


def linear(a: Tensor, mu: Tensor, variance: Tensor, bias: Tensor | None = None) -> Tensor:
    """b_j = sum_i a_i mu_ij + eps_j sqrt(sum_i a_i^2 sigma_ij^2). Eqs. (4), (39); with mu = 0 eq. (40)"""
    std = (F.linear(a**2, variance) + EPS).sqrt()
    return F.linear(a, mu, bias) + std * torch.randn_like(std)


def conv2d(a: Tensor, mu: Tensor, variance: Tensor, bias: Tensor | None = None, **geometry: Any) -> Tensor:
    """b = A * mu + eps sqrt(A^2 * sigma^2), * a convolution, eps for every position. Eq. (41); with mu = 0 eq. (42)"""
    std = (F.conv2d(a**2, variance, **geometry) + EPS).sqrt()
    return F.conv2d(a, mu, bias, **geometry) + std * torch.randn_like(std)
