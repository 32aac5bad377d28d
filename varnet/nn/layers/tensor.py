"""A random tensor that is a part of a layer."""

from types import SimpleNamespace
from typing import Any

from torch import Tensor

from varnet.nn.layers.base import Variational
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior


class RandomTensor(Variational):
    """A tensor of random numbers that is a part of a layer: one of its weights, or its bias.

    A matrix can be called, as a dense layer without a bias.
    """

    @classmethod
    def of(cls, tensor: Tensor, param: str | Parameterization, prior: str | Prior) -> "RandomTensor":
        """Random numbers whose means are those of a tensor."""
        part = cls.__new__(cls)
        part._adopt(SimpleNamespace(weight=tensor, training=True), param, prior, {})
        return part

    def take_shape(self, module: Any) -> None:
        pass

    def check_input(self, x: Tensor) -> None:
        if len(self.weight_shape) != 2 or x.shape[-1] != self.weight_shape[1]:
            raise ValueError(f"{self} got shape {tuple(x.shape)}: give a matrix inputs of its second dimension")

    def prepare(self, x: Tensor) -> tuple[Tensor, None]:
        return x, None

    def shape_repr(self) -> str:
        return f"shape={tuple(self.weight_shape)}"
