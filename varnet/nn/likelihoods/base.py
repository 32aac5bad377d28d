"""What a likelihood is: log p(target | outputs of the network), object by object.

A likelihood looks at shapes and types in every step and at values once, on a whole dataset: a look at a value makes the
host wait for a GPU.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from varnet.errors import ConfigError
from varnet.nn.registry import Registry, check_options


@dataclass(frozen=True)
class Likelihood:
    """A likelihood of targets that are numbers. Its options are the fields of its class.

    Targets of a dataset have the shape (N, D), one target being D = 1. `mean_of`, `variance_of` and `cdf` are of each
    target by itself, given the outputs; the predictive distribution of K samples is the mixture of these.
    """

    name = ""  # in configurations; a class that has one is registered
    classes: ClassVar[bool] = False  # targets are numbers of classes, (N,)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        LIKELIHOODS.add(cls)

    def __post_init__(self) -> None:
        check_options(self)

    # ---- what a likelihood says

    def log_prob(self, out: Tensor, target: Tensor) -> Tensor:
        """Log probability (density) of the target of each object, (N,)."""
        raise NotImplementedError

    def mean_of(self, out: Tensor) -> Tensor:
        """Mean of each target, (..., D) for outputs (..., O)."""
        raise NotImplementedError

    def variance_of(self, out: Tensor) -> Tensor:
        """Variance of each target given the outputs: what no network can know of it (aleatoric)."""
        raise NotImplementedError

    def cdf(self, out: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Probability of less than each target, and of at most the target: the same where targets are continuous."""
        raise NotImplementedError

    def outputs(self, targets: int) -> int:
        """How many outputs the network of a run has for so many targets (or classes)."""
        return targets

    def head(self, targets: int) -> nn.Module | None:
        """What comes behind these outputs, to be learned with the network."""
        return None

    # ---- what fits

    def check(self, out: Tensor, target: Tensor) -> None:
        """Refuse outputs and targets by shape and type, which asks no device for a value."""
        self.check_type(target)
        self.check_outputs(out)
        if out.shape != target.shape:
            raise self.unfit(target, f"outputs have shape {tuple(out.shape)}: use the same for both, e.g. (N, 1)")

    def check_type(self, target: Tensor) -> None:
        """Refuse a type of targets; floating point unless a class knows better."""
        if not target.is_floating_point():
            raise self.unfit(target, "it takes floating point: use target.float(), or likelihood=categorical")

    def check_outputs(self, out: Tensor) -> None:
        if not out.is_floating_point():
            raise ValueError(f"likelihood={self.name} takes outputs in floating point, got {kind(out)}: return floats")

    def check_values(self, target: Tensor) -> None:
        """Refuse values that have no probability. Waits for the device: for whole datasets, and for a CPU."""
        if not bool(target.isfinite().all()):
            raise self.unfit(target, "some values are not finite: replace or leave them out")

    def unfit(self, target: Tensor, why: str) -> ConfigError:
        return ConfigError(f"does not fit likelihood={self.name}: {why}", "target", kind(target))

    # ---- what a step and a run make of it

    def nll(self, out: Tensor, target: Tensor) -> Tensor:
        """Mean negative log-likelihood of an object, the data term of a mini-batch."""
        return -self.log_prob(out, target).mean()

    def measures(self) -> tuple[str, ...]:
        """What an evaluation measures (varnet.evaluation.numbers): all that this class says enough for."""
        return (*("rmse",) * self._says("mean_of"), "nll", *("coverage", "calibration") * self._says("cdf"))

    def _says(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(Likelihood, method)

    def error(self, out: Tensor, target: Tensor) -> Tensor:
        """What is summed over the objects of an epoch, to be watched: the squared error."""
        if not self._says("mean_of"):
            return out.new_zeros(())
        return (self.mean_of(out) - target).square().flatten(1).mean(1).sum()

    def watched(self, error: float) -> dict[str, float]:
        """The name and the number that the mean of `error` has in a line of history."""
        return {"train_rmse": math.sqrt(error)} if self._says("mean_of") else {}

    def fitted(self, target: Tensor) -> "Likelihood":
        """The likelihood for a network that is trained on these targets, (N, D): `standardised` where units matter."""
        return self


def kind(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} of shape {tuple(x.shape)}"


def of_objects(values: Tensor) -> Tensor:
    """Sum over the targets of each object."""
    return values.flatten(1).sum(1) if values.dim() > 1 else values


LIKELIHOODS: Registry[Likelihood] = Registry("likelihood")
