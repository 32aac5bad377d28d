"""Tolerances that follow from standard errors: z = 5 everywhere, so that one test in a million fails by chance."""

import torch
from torch import Tensor

Z = 5.0


def assert_mean(samples: Tensor, expected: Tensor | float) -> None:
    """The mean over the first dimension agrees with the expected one within Z standard errors."""
    samples = samples.detach().double()
    error = samples.std(0) / samples.shape[0] ** 0.5
    deviation = (samples.mean(0) - torch.as_tensor(expected, dtype=torch.double)).abs()
    assert (deviation <= Z * error + 1e-12).all(), f"off by {(deviation / error).max():.1f} standard errors"


def assert_variance(samples: Tensor, expected: Tensor | float) -> None:
    """The variance over the first dimension agrees with the expected one within Z standard errors."""
    samples = samples.detach().double()
    assert_mean((samples - samples.mean(0)).square() * samples.shape[0] / (samples.shape[0] - 1), expected)


def assert_same_mean(a: Tensor, b: Tensor) -> None:
    """Two sets of samples have the same mean over the first dimension, within Z standard errors of the difference."""
    a, b = a.detach().double(), b.detach().double()
    error = (a.var(0) / len(a) + b.var(0) / len(b)).sqrt()
    deviation = (a.mean(0) - b.mean(0)).abs()
    assert (deviation <= Z * error + 1e-12).all(), f"off by {(deviation / error).max():.1f} standard errors"
