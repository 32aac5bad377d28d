"""Parameterizations of q(w): learned tensors -> mean, variance and log alpha of the weights (paper eq. 14).

A parameterization owns no tensors. It says which ones a layer learns (`tensors`) and reads them back from the layer,
here called `q`: any object with the attributes `mu`, `log_alpha`, `sigma`, `log_sigma` or `log_sigma2`. That is all a
layer and a prior know of it, so that parameterization, noise family, prior and kind of layer compose freely.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from varnet.base.checks import FINITE, INTERVAL, number, one_of
from varnet.errors import ConfigError
from varnet.nn.noise import noise_like

NOISES = ("gaussian", "bernoulli", "uniform")
LARGEST_LOG_SIGMA = 43.0  # the variance is a float32 still


@dataclass(frozen=True, eq=False)
class Parameterization:
    """Options common to all; each parameterization uses those that mean something to it."""

    log_alpha: float | Tensor = -5.0  # at the start; one number, or a tensor of the shape of the learned log alpha
    log_sigma: float | None = None  # at the start of zero_mean and additive; None: from the weights (see `tensors`)
    clip: tuple[float, float] | None = (-20.0, 20.0)  # log alpha is used clipped to this range
    learn: str = "sigma"  # zero_mean: sigma itself, of any sign, or log_sigma
    noise: str = "gaussian"  # zero_mean: the family of section 3.3
    threshold: float | None = None  # weight, additive: weights with log alpha from this on are taken as 0

    name = ""
    alpha_per_weight = False
    zero_mean = False  # E w = 0, so that a layer may leave out the product with the mean
    deterministic = False  # Var w = 0, so that a layer may leave out the noise

    def __post_init__(self):
        one_of(*NOISES)("noise", self.noise)
        one_of("sigma", "log_sigma")("learn", self.learn)
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
        if self.clip is not None:
            low, high = INTERVAL("clip", self.clip)
            object.__setattr__(self, "clip", (float(low), float(high)))
        for key in ("log_alpha", "log_sigma", "threshold"):
            value = getattr(self, key)
            if value is not None and not isinstance(value, Tensor):
                object.__setattr__(self, key, float(FINITE(key, value)))
        if self.log_sigma is not None:
            number(high=LARGEST_LOG_SIGMA)("log_sigma", self.log_sigma)

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        """What a layer with this (trained or freshly drawn) weight learns; nn.Parameter unless it stays fixed."""
        raise NotImplementedError

    def mean(self, q) -> Tensor:
        return q.mu

    def std(self, q) -> Tensor:
        """Standard deviation up to its sign: smooth in the learned tensors, so that w = mean + std * noise is too."""
        raise NotImplementedError

    def variance(self, q) -> Tensor:
        return self.std(q).square()

    def log_alpha_of(self, q) -> Tensor:
        """log(variance / mean^2), in a shape that broadcasts to the weights'."""
        raise NotImplementedError

    def std_and_alpha(self, q) -> tuple[Tensor, Tensor | None]:
        """(std, alpha) with variance = alpha * std^2; alpha is None for 1, or one number per layer or output unit."""
        return self.std(q), None

    def kept(self, q) -> Tensor | None:
        """Which weights are below the threshold; None for all. Sparse variational dropout (Molchanov et al. 2017)."""
        return None if self.threshold is None else self.log_alpha_of(q).detach() < self.threshold

    def erase(self, q, chosen: Tensor) -> None:
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


class Multiplicative(Parameterization):
    """N(mu, alpha mu^2), alpha shared by as many weights as the subclass says."""

    def alpha_shape(self, weight: Tensor) -> torch.Size:
        raise NotImplementedError

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        log_alpha = self.start(self.alpha_shape(weight), weight)
        return {"mu": as_parameter(weight), "log_alpha": nn.Parameter(log_alpha)}

    def log_alpha_of(self, q) -> Tensor:
        return self.clipped(q.log_alpha)

    def std(self, q) -> Tensor:
        return (0.5 * self.log_alpha_of(q)).exp() * q.mu

    def variance(self, q) -> Tensor:
        return self.log_alpha_of(q).exp() * q.mu.square()

    def std_and_alpha(self, q) -> tuple[Tensor, Tensor | None]:
        return q.mu, self.clipped(q.log_alpha).exp()


class LayerWise(Multiplicative):
    """N(mu_ij, alpha mu_ij^2): one alpha per layer."""

    name = "layer"

    def alpha_shape(self, weight: Tensor) -> torch.Size:
        return torch.Size()


class NeuronWise(Multiplicative):
    """N(mu_ij, alpha_j mu_ij^2): one alpha per output unit or channel."""

    name = "neuron"

    def alpha_shape(self, weight: Tensor) -> torch.Size:
        return weight.shape[:1]

    def log_alpha_of(self, q) -> Tensor:
        return self.clipped(q.log_alpha).view(-1, *[1] * (q.mu.dim() - 1))


class WeightWise(Multiplicative):
    """N(mu_ij, alpha_ij mu_ij^2): one alpha per weight."""

    name = "weight"
    alpha_per_weight = True

    def alpha_shape(self, weight: Tensor) -> torch.Size:
        return weight.shape

    def std_and_alpha(self, q) -> tuple[Tensor, Tensor | None]:
        return self.std(q), None


class GaussianDropout(LayerWise):
    """N(mu_ij, alpha mu_ij^2) with alpha = p / (1 - p) fixed: a baseline."""

    name = "gaussian_dropout"

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        return {"mu": as_parameter(weight), "log_alpha": self.start(torch.Size(), weight)}


class Additive(Parameterization):
    """N(mu_ij, sigma_ij^2); alpha = sigma^2 / mu^2 is derived. Starts from log_sigma, or from log_alpha and mu."""

    name = "additive"
    alpha_per_weight = True

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            if self.log_sigma is None:
                log_sigma2 = self.start(torch.Size(), weight) + log_square(weight)
            else:
                log_sigma2 = torch.full_like(weight, 2 * self.log_sigma)
        return {"mu": as_parameter(weight), "log_sigma2": nn.Parameter(log_sigma2)}

    def std(self, q) -> Tensor:
        return (0.5 * q.log_sigma2).exp()

    def variance(self, q) -> Tensor:
        return q.log_sigma2.exp()

    def log_alpha_of(self, q) -> Tensor:
        """Below the clip its gradient passes: the clip is not in the samples, and a weight that began next to 0 and
        grew, its sigma still tiny, would never be brought back by the KL."""
        free = q.log_sigma2 - log_square(q.mu)
        if self.clip is None:
            return free
        below = (free.detach() < self.clip[0]) & free.detach().isfinite()
        return self.clipped(free) + torch.where(below, free - free.detach(), 0.0)

    def erase(self, q, chosen: Tensor) -> None:
        super().erase(q, chosen)
        q.log_sigma2.data.masked_fill_(chosen, -math.inf)


class ZeroMean(Parameterization):
    """theta_ij * noise with E noise = 0: a variance layer. Starts from log_sigma, or from theta = the weights.

    Differs from the paper's text, not from its runs: by default sigma itself is learned (DESIGN, `learn`).
    """

    name = "zero_mean"
    zero_mean = True

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        sigma = weight.detach().clone() if self.log_sigma is None else torch.full_like(weight, math.exp(self.log_sigma))
        if self.learn == "sigma":
            return {"sigma": nn.Parameter(sigma.detach())}
        return {"log_sigma": nn.Parameter(0.5 * log_square(sigma.detach()))}

    def theta(self, q) -> Tensor:
        return q.sigma if self.learn == "sigma" else q.log_sigma.exp()

    def mean(self, q) -> Tensor:
        return torch.zeros_like(self.theta(q))

    def std(self, q) -> Tensor:
        theta = self.theta(q)
        return theta / math.sqrt(3) if self.noise == "uniform" else theta  # Var U(-1, 1) = 1/3

    def log_alpha_of(self, q) -> Tensor:
        return torch.full((), math.inf, dtype=self.theta(q).dtype, device=self.theta(q).device)

    def erase(self, q, chosen: Tensor) -> None:
        learned, zero = (q.sigma, 0.0) if self.learn == "sigma" else (q.log_sigma, -math.inf)
        learned.data.masked_fill_(chosen, zero)


class Deterministic(Parameterization):
    """w = mu, a point estimate: no noise and no KL."""

    name = "deterministic"
    deterministic = True

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        return {"mu": as_parameter(weight)}

    def std(self, q) -> Tensor:
        return torch.zeros_like(q.mu)

    def log_alpha_of(self, q) -> Tensor:
        return torch.full((), -math.inf, dtype=q.mu.dtype, device=q.mu.device)


PARAMS = {
    cls.name: cls for cls in (ZeroMean, LayerWise, NeuronWise, WeightWise, Additive, Deterministic, GaussianDropout)
}


def make(param: "str | Parameterization", **options) -> Parameterization:
    """A parameterization by its name in the configs."""
    if isinstance(param, Parameterization):
        if options:
            raise ValueError(
                f"{', '.join(options)}: give options with a name such as param='layer', not with an object"
            )
        return param
    one_of(*PARAMS)("param", param)
    return PARAMS[param](**options)


def unit_noise(noise: str, like: Tensor) -> Tensor:
    """Independent noise of mean 0 and variance 1 in the shape of `like` (section 3.3)."""
    if noise == "gaussian":
        return noise_like(like)
    if noise == "bernoulli":
        return torch.randint_like(like, 2).mul(2).sub(1)
    return torch.rand_like(like).mul(2).sub(1).mul(math.sqrt(3))


def as_parameter(weight: Tensor) -> nn.Parameter:
    """The same parameter if it is one: an optimizer or a tied layer that knows it goes on working."""
    return weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight.detach().clone())


def log_square(x: Tensor) -> Tensor:
    """log x^2, finite and with gradient 0 where x^2 underflows."""
    return x.square().clamp_min(torch.finfo(x.dtype).tiny).log()
