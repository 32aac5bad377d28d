"""A likelihood in the units of its training targets: the network sees targets of mean 0 and standard deviation 1.

Densities, means and variances are those of the targets as they are; only the outputs are in units of the training set.
"""

import torch
from torch import Tensor, nn

from varnet.errors import ConfigError
from varnet.nn.likelihoods.base import Likelihood


class Standardised(Likelihood):
    """p(t | out) = q((t - shift) / scale | out) / scale, of a likelihood q of continuous targets."""

    inner: Likelihood
    shift: Tensor
    scale: Tensor
    moved: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor, Tensor]]

    def __init__(self, inner: Likelihood, shift: Tensor, scale: Tensor) -> None:
        """shift, scale: (D,), of the targets"""
        values = {"inner": inner, "shift": shift.cpu(), "scale": scale.cpu(), "moved": {}}
        self.__dict__.update(values, name=inner.name)  # the class is frozen

    def log_prob(self, out: Tensor, target: Tensor) -> Tensor:
        shift, scale, log_scale = self._units(target)
        return self.inner.log_prob(out, (target - shift) / scale) - log_scale

    def mean_of(self, out: Tensor) -> Tensor:
        shift, scale, _ = self._units(out)
        return shift + scale * self.inner.mean_of(out)

    def variance_of(self, out: Tensor) -> Tensor:
        return self._units(out)[1].square() * self.inner.variance_of(out)

    def cdf(self, out: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        shift, scale, _ = self._units(target)
        return self.inner.cdf(out, (target - shift) / scale)

    def measures(self) -> tuple[str, ...]:
        return self.inner.measures()

    def outputs(self, targets: int) -> int:
        return self.inner.outputs(targets)

    def head(self, targets: int) -> nn.Module | None:
        return self.inner.head(targets)

    def check(self, out: Tensor, target: Tensor) -> None:
        self.inner.check(out, target)

    def check_type(self, target: Tensor) -> None:
        self.inner.check_type(target)

    def check_values(self, target: Tensor) -> None:
        self.inner.check_values(target)

    def _units(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """shift, scale and the sum of log scale; moved to a device once, as every move makes the host wait."""
        key = like.device, like.dtype
        if key not in self.moved:
            log_scale = self.scale.double().log().sum()
            self.moved[key] = self.shift.to(*key), self.scale.to(*key), log_scale.to(*key)
        return self.moved[key]


def standardised(likelihood: Likelihood, target: Tensor) -> Standardised:
    """A likelihood in the units of these training targets, (N, D)."""
    shift, scale = target.double().mean(0), target.double().std(0, correction=0)
    if bool((scale == 0).any()):
        raise ConfigError(
            f"is invalid for likelihood={likelihood.name}: all training targets are the same; use targets that differ",
            "target", f"{float(target[0, int(scale.argmin())]):g}",
        )  # fmt: skip
    return Standardised(likelihood, shift, scale)
