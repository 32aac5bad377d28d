"""Parameterizations of q(w): learned tensors -> mean, variance and log alpha of the weights (paper eq. 14).

A parameterization owns no tensors. It says which ones a layer learns (`tensors`) and reads them back from the layer,
here called `q`, whose attributes they are: `mu`, `log_alpha`, `sigma`, ... That is all a layer and a prior know of it,
so that parameterization, noise family, prior and kind of layer compose freely.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from varnet.base.checks import FINITE, INTERVAL, number, one_of, or_null
from varnet.errors import ConfigError
from varnet.nn.noise import NOISES
from varnet.nn.registry import Registry, check_options, option
from varnet.nn.safe import log_square

REMOVED = ("mean", "mean_of_dense")  # the mean alone; in dense layers alone, convolutions losing both
LARGEST_LOG_SIGMA = 43.0  # the variance is a float32 still


@dataclass(frozen=True, eq=False)
class Parameterization:
    """Options common to all; each parameterization uses those that mean something to it, and may have more: fields."""

    log_alpha: float | Tensor = -5.0  # at the start; one number, or a tensor of the shape of the learned log alpha
    log_sigma: float | None = None  # at the start of zero_mean and additive; None: from the weights (see `tensors`)
    clip: tuple[float, float] | None = (-20.0, 20.0)  # log alpha is used clipped to this range
    learn: str = option("sigma", one_of("sigma", "log_sigma"))  # zero_mean: sigma itself, of any sign, or log_sigma
    noise: str = option("gaussian", one_of(*NOISES))  # zero_mean: the family of section 3.3
    threshold: float | None = None  # weight, additive: weights with log alpha from this on are taken as 0
    removed: str | None = option(None, or_null(one_of(*REMOVED)))  # what those lose; None: mean and noise

    name = ""  # in configurations; a class that has one is registered
    alpha_per_weight = False
    multiplicative = False  # the standard deviation is a multiple of the mean
    zero_mean = False  # E w = 0, so that a layer may leave out the product with the mean
    without: ClassVar[tuple[str, ...]] = ()  # options of this class that mean nothing to it
    deterministic = False  # Var w = 0, so that a layer may leave out the noise

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        PARAMS.add(cls)

    def __post_init__(self) -> None:
        check_options(self)
        self._check_fit()
        if self.clip is not None:
            low, high = INTERVAL("clip", self.clip)
            object.__setattr__(self, "clip", (float(low), float(high)))
        for key in ("log_alpha", "log_sigma", "threshold"):
            value = getattr(self, key)
            if value is not None and not isinstance(value, Tensor):
                object.__setattr__(self, key, float(FINITE(key, value)))
        if self.log_sigma is not None:
            number(high=LARGEST_LOG_SIGMA)("log_sigma", self.log_sigma)

    def _check_fit(self) -> None:
        """Refuse options that have no meaning for this parameterization."""
        if self.noise != "gaussian" and not self.zero_mean:
            raise ConfigError(
                f"needs weights of mean zero, but param={self.name} learns a mean: use param=zero_mean, or "
                "noise=gaussian", "noise", self.noise,
            )  # fmt: skip
        if self.threshold is not None and not self.alpha_per_weight:
            raise ConfigError(
                f"removes single weights, but param={self.name} has no log alpha for each: use param=additive or "
                "param=weight", "threshold", self.threshold,
            )  # fmt: skip
        if self.removed is not None and self.threshold is None:
            raise ConfigError(
                "says what removed weights lose, but none is removed: use threshold=3, or null", "removed", self.removed
            )

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        """What a layer with this (trained or freshly drawn) weight learns; nn.Parameter unless it stays fixed."""
        raise NotImplementedError

    def tensors_of(self, q: Any, weight: Tensor) -> dict[str, Tensor]:
        """As `tensors`, for a layer that knows along which axis of its weights the output units are."""
        return self.tensors(weight)

    def mean(self, q: Any) -> Tensor:
        return q.mu

    def std(self, q: Any) -> Tensor:
        """Standard deviation up to its sign: smooth in the learned tensors, so that w = mean + std * noise is too."""
        raise NotImplementedError

    def variance(self, q: Any) -> Tensor:
        return self.std(q).square()

    def log_alpha_of(self, q: Any) -> Tensor:
        """log(variance / mean^2), in a shape that broadcasts to the weights'."""
        return self.clipped(log_square(self.std(q)) - log_square(self.mean(q)))

    def std_and_alpha(self, q: Any) -> tuple[Tensor, Tensor | None]:
        """(std, alpha) with variance = alpha * std^2; alpha is None for 1, or one number per layer or output unit."""
        return self.std(q), None

    def kept(self, q: Any) -> Tensor | None:
        """Which weights are below the threshold; None for all. Sparse variational dropout (Molchanov et al. 2017)."""
        return None if self.threshold is None else self.log_alpha_of(q).detach() < self.threshold

    def erase(self, q: Any, chosen: Tensor) -> None:
        """Make the chosen weights exactly 0, mean and variance."""
        q.mu.data.masked_fill_(chosen, 0.0)

    def clipped(self, log_alpha: Tensor) -> Tensor:
        return log_alpha if self.clip is None else log_alpha.clamp(*self.clip)

    def start(self, shape: torch.Size, weight: Tensor) -> Tensor:
        """The initial log alpha in the given shape."""
        value = torch.as_tensor(self.log_alpha).detach()
        if value.dim() and value.shape != shape:
            raise ConfigError(
                f"has shape {tuple(value.shape)}, but param={self.name} of a layer with weights "
                f"{tuple(weight.shape)} takes a number or a tensor of shape {tuple(shape)}", "log_alpha",
            )  # fmt: skip
        (low, high), (least, most) = self.clip or (-math.inf, math.inf), (float(value.min()), float(value.max()))
        if not low <= least <= most <= high:
            shown = f"{least:g}" if least == most else f"{least:g} to {most:g}"
            raise ConfigError(
                f"starts outside clip=({low:g}, {high:g}), where its gradient is 0: start inside, or widen clip",
                "log_alpha", shown,
            )  # fmt: skip
        return value.to(weight.device, weight.dtype).expand(shape).clone()


PARAMS: Registry[Parameterization] = Registry("param")


def as_parameter(weight: Tensor) -> nn.Parameter:
    """The same parameter if it is one: an optimizer or a tied layer that knows it goes on working."""
    return weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight.detach().clone())
