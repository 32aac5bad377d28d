"""Layers of torch that read several weights at once: they stay what they are, and their weights become random parts."""

from typing import Any, ClassVar, cast

from torch import Tensor, nn

from varnet.nn.layers.base import KINDS
from varnet.nn.layers.parts import Parted
from varnet.nn.layers.tensor import RandomTensor
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior


class Host(Parted):
    """A layer of torch some of whose tensors are random. It is changed in place: its class becomes this one."""

    sampling: ClassVar[str] = "weights"  # how it samples, for the inventory

    def __init_subclass__(cls, replaces: type[nn.Module] | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if replaces is not None:
            KINDS[replaces] = cls

    @classmethod
    def unfit(cls, module: Any) -> str | None:
        """Why a layer of torch cannot be changed; None if it can."""
        return None

    @classmethod
    def weights_of(cls, module: nn.Module) -> list[str]:
        """The names of the tensors that are weights."""
        raise NotImplementedError

    @classmethod
    def biases_of(cls, module: nn.Module) -> list[str]:
        """The names of those that are added to products with weights."""
        return [name for name, p in module._parameters.items() if p is not None and name.startswith("bias_")]

    @classmethod
    def random_parts(
        cls, module: nn.Module, param: Parameterization, prior: Prior, random_bias: bool
    ) -> dict[str, RandomTensor]:
        """What becomes random, made while the module is as it was."""
        names = cls.weights_of(module) + (cls.biases_of(module) if random_bias else [])
        return {name: RandomTensor.of(cast(Tensor, module._parameters[name]), param, prior) for name in names}

    @classmethod
    def change(cls, module: Any, parts: dict[str, RandomTensor]) -> Any:
        """Let the parts take the place of the module's tensors."""
        module.__class__ = cls
        for name, part in parts.items():
            del module._parameters[name]
            module.add_part(name, part)
            part.train(module.training)
        return module

    @classmethod
    def from_deterministic(
        cls, module: nn.Module, param: Parameterization, prior: Prior, random_bias: bool = False
    ) -> Any:
        return cls.change(module, cls.random_parts(module, param, prior, random_bias))
