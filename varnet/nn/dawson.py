"""The integral of Dawson's function D that is the KL to the log-uniform prior, as a table.

With u = (2 alpha)^-1/2, KL = 2 int_0^u D(s) ds and dKL/dlog(alpha) = -u D(u): the mean of 1/(1 + sqrt(alpha) eps), as a
principal value, is a Dawson function. What is left after softplus(-log alpha)/2 runs from C to 0; a cubic Hermite table
of it is right to 1e-12 (double), its gradient to 1e-9. It is made when it is first used: scipy takes long to load.
"""

import functools
import math

import numpy as np
import torch
from torch import Tensor

# The table covers log alpha in [LOW, HIGH]; beyond, what it holds is constant to 1e-16.
LOW, HIGH, PER_UNIT = -37, 20, 256


def look_up(log_alpha: Tensor) -> Tensor:
    """KL - softplus(-log alpha)/2"""
    cells = log_alpha.clamp(LOW, HIGH) * PER_UNIT  # a power of two: no rounding
    left = cells.detach().floor().clamp_max(HIGH * PER_UNIT - 1)
    t = cells - left
    index = left.nan_to_num(0).long() - LOW * PER_UNIT  # a NaN stays one, through t
    a, b, c, d = (column.take(index) for column in coefficients(log_alpha.dtype, log_alpha.device))
    return a + t * (b + t * (c + t * d))


@functools.cache
def coefficients(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    with torch.inference_mode(False):  # the first use may be an evaluation, the next one training
        return tuple(row.clone() for row in table().to(device=device, dtype=dtype))


def table() -> Tensor:
    """The coefficients of every cell, the constant ones first. torch.compile can use the table, but cannot make it:
    a prior that needs it calls this when it is made."""
    global _table
    if _table is None:
        _table = torch.from_numpy(_cubics())
    return _table


_table: Tensor | None = None


def _cubics() -> np.ndarray:
    value, rate = _values(np.arange(LOW * PER_UNIT, HIGH * PER_UNIT + 1) / PER_UNIT)
    value[-1] = rate[-1] = 0  # 1/(12 alpha^2) = 3.5e-19, which would be most of the KL at log alpha = 40
    rate = rate / PER_UNIT
    rise = np.diff(value)
    left, right = rate[:-1], rate[1:]
    return np.stack([value[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise])


def _values(log_alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """KL - softplus(-log alpha)/2 and its derivative on an increasing grid, integrated from the right end."""
    import scipy.special

    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(log_alpha)[:, None] / 2
    steps = (-slope(log_alpha[:-1, None] + half * (1 + nodes)) * half * weights).sum(1)
    u2 = np.exp(-log_alpha[-1]) / 2
    kl = u2 - u2**2 * 2 / 3 + np.append(np.cumsum(steps[::-1])[::-1], 0)  # series of 2 int_0^u D at the right end
    return kl - np.logaddexp(0, -log_alpha) / 2, slope(log_alpha) + scipy.special.expit(-log_alpha) / 2


def slope(log_alpha: np.ndarray) -> np.ndarray:
    """dKL / dlog(alpha)"""
    import scipy.special

    u = np.exp(-log_alpha / 2) / math.sqrt(2)
    return -u * scipy.special.dawsn(u)
