"""Student's t as a prior: a proper stand-in for the log-uniform one, which it tends to as nu -> 0."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor

from varnet.base.checks import number, one_of
from varnet.nn.params import Parameterization
from varnet.nn.priors.base import C, Prior
from varnet.nn.registry import option
from varnet.nn.safe import safe_log, safe_sqrt


def kl(mean: Tensor, variance: Tensor, nu: float = 1e-16, gradient: str = "sample", tied: bool = False) -> Tensor:
    """KL to Student's t with nu degrees of freedom, without its normaliser; one noise sample per weight. Eq. (10)

    Its gradient, unbiased either way, is that of the sample, as in the paper, with a variance of the order of nu^-1/2,
    or comes from Stein's identity, with a small one: see _slopes. `tied`: the variance is alpha mean^2, alpha learned.
    """
    std, log_variance = safe_sqrt(variance), safe_log(variance)
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
    return torch.where(ratio.abs() < 0.5, ratio.log1p(), safe_log(a) - safe_log(b))


@dataclass(frozen=True)
class Student(Prior):
    """Student's t with few degrees of freedom."""

    name = "student"
    nu: float = option(1e-16, number(0, above=True))  # degrees of freedom
    gradient: str = option("sample", one_of("sample", "stein"))  # sample is the paper's

    def values(self, param: Parameterization, q: Any, shape: Size) -> Tensor:
        return kl(param.mean(q), param.variance(q), self.nu, self.gradient, param.multiplicative)
