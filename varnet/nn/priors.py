"""Priors: KL(q || p) per weight, positive, as pure functions of the moments of q (paper section 4.2, appendix F).

With alpha = variance / mean^2, the log-uniform and ARD divergences depend on alpha only and vanish as alpha grows.
`Prior` names one of them with its options and sums it over the weights of a layer; it never averages.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import scipy.special
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varnet.base.checks import SWITCH, number, one_of
from varnet.errors import ConfigError
from varnet.nn.param import Multiplicative, Parameterization

EULER = 0.5772156649015329
C = (EULER + math.log(2)) / 2  # -E log|eps|, so that KL -> 0 as alpha -> infinity
PRIORS = ("loguniform", "student", "ard", "gaussian", "none")
ESTIMATORS = ("approx", "exact", "mc")


def loguniform(log_alpha: Tensor, estimator: str = "approx") -> Tensor:
    """KL(N(mu, alpha mu^2) || p(w) ~ 1/|w|) = E log|1 + sqrt(alpha) eps| - log(alpha)/2 + C. Eq. (8)"""
    return {"approx": loguniform_approx, "exact": loguniform_exact, "mc": loguniform_mc}[estimator](log_alpha)


def loguniform_approx(log_alpha: Tensor) -> Tensor:
    """Molchanov et al. (2017), eq. (14). Off by at most 0.0094 (at log alpha = -3.5), see tests/test_prior.py."""
    return 0.63576 * torch.sigmoid(-(1.8732 + 1.48695 * log_alpha)) + _half_softplus_minus(log_alpha)


def loguniform_mc(log_alpha: Tensor) -> Tensor:
    """One noise sample per element: value and gradient unbiased. Written as log|c + eps|, stable at both ends.

    The gradient of log|c + eps| itself, 1/(c + eps), has no mean. Stein's identity gives one that has:
    d/dc E f(c + eps) = E eps (f(c + eps) - f(c)), whose standard deviation is below 1.4 for every alpha.
    """
    c = (-0.5 * log_alpha).exp()
    eps = torch.randn_like(c)
    value = _log_abs(c + eps).detach()
    slope = eps * (value - _safe_log(c.detach()))
    return value + slope * (c - c.detach()) + C


def loguniform_exact(log_alpha: Tensor) -> Tensor:
    """The integral itself, by a table of its smooth part.

    With u = (2 alpha)^-1/2 and Dawson's function D, KL = 2 int_0^u D(s) ds and dKL/dlog(alpha) = -u D(u): the mean of
    1/(1 + sqrt(alpha) eps), as a principal value, is a Dawson function. What is left after softplus(-log alpha)/2 runs
    from C to 0; a cubic Hermite table of it is right to 1e-12 (double), its gradient to 1e-9.
    """
    cells = log_alpha.clamp(_LOW, _HIGH) * _PER_UNIT  # a power of two: no rounding
    left = cells.detach().floor().clamp_max(_HIGH * _PER_UNIT - 1)
    t = cells - left
    index = left.nan_to_num(0).long() - _LOW * _PER_UNIT  # a NaN stays one, through t
    a, b, c, d = (table.take(index) for table in _coefficients(log_alpha.dtype, log_alpha.device))
    return a + t * (b + t * (c + t * d)) + _half_softplus_minus(log_alpha)


def student(mean: Tensor, variance: Tensor, nu: float = 1e-16, gradient: str = "sample", tied: bool = False) -> Tensor:
    """KL to Student's t with nu degrees of freedom, without its normaliser; one noise sample per weight. Eq. (10)

    Its gradient, unbiased either way, is that of the sample, as in the paper, with a variance of the order of nu^-1/2,
    or comes from Stein's identity, with a small one: see _slopes. `tied`: the variance is alpha mean^2, alpha learned.
    """
    std, log_variance = _safe_sqrt(variance), _safe_log(variance)
    eps = torch.randn_like(variance)
    value = 0.5 * (nu + 1) * (nu + (mean + std * eps).square()).log()
    if gradient == "stein":
        with torch.no_grad():
            by_mean, by_log_variance = _slopes(mean, std, eps, nu, tied)
        moved = by_log_variance * (log_variance - log_variance.detach())
        value = value.detach() + by_mean * (mean - mean.detach()) + moved
    return value - 0.5 * log_variance + C


def _slopes(mean: Tensor, std: Tensor, eps: Tensor, nu: float, tied: bool) -> tuple[Tensor, Tensor]:
    """Unbiased slopes of E f(mean + std eps), f(w) = (nu + 1)/2 log(nu + w^2), by the mean and by the log variance.

    E eps (f - b) / std and E (eps^2 - 1)(f - b) / 2, plus the slopes of E b, for any b that these are known of. Where
    the noise is larger than the mean, b = f(std eps), all of f but what the mean does to it: its slopes are 0 and that
    of the sample, (nu + 1)/2 (std eps)^2 / (nu + (std eps)^2). Elsewhere b is a constant.

    Where mean and noise are scaled together, the gradient of the sample has next to no noise: w f'(w) -> 1 as nu -> 0.
    If they are tied, the slope by the mean is what makes the two add up to that, and the KL leaves the mean in peace.
    """
    noise, noisy = std * eps, std > mean.abs()
    square, noise_square = (mean + noise).square(), noise.square()
    reference = torch.where(noisy, noise_square, mean.square() + std.square())
    beyond = torch.where(noisy, mean * (mean + 2 * noise), std * (2 * mean * eps + std * (eps.square() - 1)))
    rest = 0.5 * (nu + 1) * _log_ratio(nu + square, nu + reference, beyond)  # f - b
    slope_of_b = torch.where(noisy, (nu + 1) * noise_square / (nu + noise_square), 0.0)
    by_log_variance = 0.5 * ((eps.square() - 1) * rest + slope_of_b)
    if not tied:
        return eps * rest / std, by_log_variance
    together = (nu + 1) * square / (nu + square)
    return torch.where(mean == 0, 0.0, (together - 2 * by_log_variance) / mean), by_log_variance


def _log_ratio(a: Tensor, b: Tensor, difference: Tensor) -> Tensor:
    """log(a / b), also where the difference of a and b is lost in their digits."""
    ratio = difference / b
    return torch.where(ratio.abs() < 0.5, ratio.log1p(), _safe_log(a) - _safe_log(b))


def ard(log_alpha: Tensor) -> Tensor:
    """KL to N(0, (alpha + 1) mu^2), the best Gaussian prior for each weight: log(1 + 1/alpha) / 2.

    Differs from the paper: eq. (11) lacks the factor 1/2.
    """
    return _half_softplus_minus(log_alpha)


def gaussian(mean: Tensor, variance: Tensor, scale: float | Tensor = 1.0) -> Tensor:
    """KL(N(mean, variance) || N(0, scale^2))."""
    ratio = variance / scale**2
    return 0.5 * (ratio + (mean / scale).square() - 1 - _safe_log(ratio))


@dataclass(frozen=True)
class Prior:
    """A prior by its name in the configs; options that it has no use for are ignored."""

    name: str = "loguniform"
    estimator: str = "approx"  # loguniform: approx (the paper's), exact, mc
    nu: float = 1e-16  # student: degrees of freedom
    gradient: str = "sample"  # student: sample (the paper's), stein
    scale: float = 1.0  # gaussian: standard deviation, or where it starts
    learn_scale: bool = False  # gaussian: learn one scale per layer (empirical Bayes), called log_scale in the layer

    def __post_init__(self):
        one_of(*PRIORS)("prior", self.name)
        one_of(*ESTIMATORS)("estimator", self.estimator)
        one_of("sample", "stein")("gradient", self.gradient)
        SWITCH("learn_scale", self.learn_scale)
        for key in ("nu", "scale"):
            number(0, above=True)(key, getattr(self, key))

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        """What the prior learns beside q."""
        if self.name != "gaussian" or not self.learn_scale:
            return {}
        return {"log_scale": nn.Parameter(weight.new_full((), math.log(self.scale)))}

    def check(self, param: Parameterization) -> None:
        if param.noise != "gaussian" and self.name in ("student", "gaussian"):
            raise ConfigError(
                f"has no KL for noise={param.noise}, which is not Gaussian: use prior=loguniform, ard or none, "
                "whose KL does not depend on the scale",
                "prior",
                self.name,
            )

    def kl(self, param: Parameterization, q, shape: torch.Size) -> Tensor:
        """KL of one layer: the sum over its weights of the given shape."""
        if self.name == "none" or param.deterministic or (param.zero_mean and self.name in ("loguniform", "ard")):
            # A point estimate has no KL; that of a zero-mean q does not depend on its scale (appendix F).
            return param.std(q).new_zeros(())
        values = self.values(param, q, shape)
        return values.sum() * (shape.numel() / values.numel())

    def values(self, param: Parameterization, q, shape: torch.Size) -> Tensor:
        """KL per weight, in a shape that broadcasts to the weights': weights that share alpha share the work."""
        if self.name == "loguniform":
            log_alpha = param.log_alpha_of(q)
            return loguniform(log_alpha.expand(shape) if self.estimator == "mc" else log_alpha, self.estimator)
        if self.name == "ard":
            return ard(param.log_alpha_of(q))
        if self.name == "student":
            tied = isinstance(param, Multiplicative)
            return student(param.mean(q), param.variance(q), self.nu, self.gradient, tied)
        return gaussian(param.mean(q), param.variance(q), q.log_scale.exp() if self.learn_scale else self.scale)


def make(prior: str | Prior, **options) -> Prior:
    """A prior by its name in the configs."""
    if not isinstance(prior, Prior):
        return Prior(prior, **options)
    if options:
        raise ValueError(f"{', '.join(options)}: give options with a name such as prior='ard', not with an object")
    return prior


# The table of loguniform_exact covers log alpha in [_LOW, _HIGH]; beyond, the tabulated part is constant to 1e-16.
_LOW, _HIGH, _PER_UNIT = -37, 20, 256


def _exact_tail(log_alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """KL - softplus(-log alpha)/2 and its derivative on an increasing grid, integrated from the right end."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(log_alpha)[:, None] / 2
    steps = (-_slope(log_alpha[:-1, None] + half * (1 + nodes)) * half * weights).sum(1)
    u2 = np.exp(-log_alpha[-1]) / 2
    kl = u2 - u2**2 * 2 / 3 + np.append(np.cumsum(steps[::-1])[::-1], 0)  # series of 2 int_0^u D at the right end
    return kl - np.logaddexp(0, -log_alpha) / 2, _slope(log_alpha) + scipy.special.expit(-log_alpha) / 2


def _slope(log_alpha: np.ndarray) -> np.ndarray:
    u = np.exp(-log_alpha / 2) / math.sqrt(2)
    return -u * scipy.special.dawsn(u)


def _cubics() -> np.ndarray:
    value, slope = _exact_tail(np.arange(_LOW * _PER_UNIT, _HIGH * _PER_UNIT + 1) / _PER_UNIT)
    value[-1] = slope[-1] = 0  # 1/(12 alpha^2) = 3.5e-19, which would be most of the KL at log alpha = 40
    slope = slope / _PER_UNIT
    rise = np.diff(value)
    left, right = slope[:-1], slope[1:]
    return np.stack([value[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise])


_TABLE = torch.from_numpy(_cubics())


@functools.cache
def _coefficients(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    with torch.inference_mode(False):  # the first use may be an evaluation, the next one training
        return tuple(row.clone() for row in _TABLE.to(device=device, dtype=dtype))


def _half_softplus_minus(x: Tensor) -> Tensor:
    """softplus(-x)/2; F.softplus itself switches to a straight line at 20 and is off by 2e-9 there."""
    return -0.5 * F.logsigmoid(x)


def _log_abs(x: Tensor) -> Tensor:
    """log|x|, finite and with gradient 0 at x = 0, which a float32 draw does hit."""
    return 0.5 * _safe_log(x.square())


def _safe_log(x: Tensor) -> Tensor:
    return x.clamp_min(torch.finfo(x.dtype).tiny).log()


def _safe_sqrt(x: Tensor) -> Tensor:
    return x.clamp_min(torch.finfo(x.dtype).tiny).sqrt()
