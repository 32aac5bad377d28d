"""Logarithms and roots that are finite, and have the gradient 0, where their argument is 0."""

import torch
import torch.nn.functional as F
from torch import Tensor


def safe_log(x: Tensor) -> Tensor:
    return x.clamp_min(torch.finfo(x.dtype).tiny).log()


def safe_sqrt(x: Tensor) -> Tensor:
    return x.clamp_min(torch.finfo(x.dtype).tiny).sqrt()


def log_square(x: Tensor) -> Tensor:
    """log x^2"""
    return safe_log(x.square())


def log_abs(x: Tensor) -> Tensor:
    """log|x|; a float32 draw does hit 0."""
    return 0.5 * log_square(x)


def half_softplus_minus(x: Tensor) -> Tensor:
    """softplus(-x)/2; F.softplus itself switches to a straight line at 20 and is off by 2e-9 there."""
    return -0.5 * F.logsigmoid(x)
