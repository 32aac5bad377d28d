"""Layers of which several tensors are random, each with a posterior of its own: the parts of the layer.

They lie in a dictionary called `random`, so that a state_dict has `lstm.random.weight_ih_l0.mu` for the `weight_ih_l0`
of a plain layer. Who reads `lstm.weight_ih_l0` gets the numbers that the state of that part says.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

PARTS = "random"


class Parted(nn.Module):
    """A module that may have random parts."""

    def parts(self) -> dict[str, Any]:
        """The random parts by the name of the tensor that each stands for."""
        found = self.__dict__.get("_modules", {}).get(PARTS)
        return {} if found is None else found._modules

    def part(self, name: str) -> Any:
        """The part in place of a tensor; None for a tensor that is not random."""
        return self.parts().get(name)

    def add_part(self, name: str, part: nn.Module) -> None:
        if PARTS not in self._modules:
            self.add_module(PARTS, nn.ModuleDict())
        parts: Any = self._modules[PARTS]
        parts[name] = part

    def __getattr__(self, name: str) -> Any:
        part = self.part(name)
        return super().__getattr__(name) if part is None else part.weight

    @contextlib.contextmanager
    def drawn(self) -> Iterator[None]:
        """Hold one draw of every part inside: who reads a tensor twice reads the same."""
        names = list(self.parts())
        for name in names:
            vars(self)[name] = self.part(name).weight
        try:
            yield
        finally:
            for name in names:
                del vars(self)[name]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, part in self.parts().items():
            translate(part, state_dict, prefix + name, f"{prefix}{PARTS}.{name}.")
        super()._load_from_state_dict(state_dict, prefix, *args)


def translate(layer: Any, state: dict[str, Tensor], key: str, prefix: str) -> None:
    """Let a weight of a plain network, under `key`, be the mean of a layer; its noise begins as it would with these
    weights. Nothing happens in a state of a variational network."""
    learned = [prefix + name for name in layer.of_param]
    if key not in state or any(name in state for name in learned):
        return
    weight = state.pop(key)
    if weight.shape != layer.weight_shape:
        state[learned[0]] = weight  # torch says what does not fit
        return
    tensors = layer.param.tensors_of(layer, weight) | layer.prior.tensors(weight)
    state.update({prefix + name: tensor.detach() for name, tensor in tensors.items()})
