"""Trial runs of a model that leave no trace: random generators, buffers and attributes end as they were."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from varnet.nn.layers import held_in

CONTAINERS = (dict, list, set)  # subclasses too; their contents are kept, one level deep
OF_TRACING = "_tensor_constant"  # what torch.fx adds to a model for the constants of its graph


class Generators:
    """States of the generators from which a model on the device of x may draw."""

    def __init__(self, x: Tensor):
        self.kind = x.device.type
        self.states = self._now()

    def _now(self) -> list[Tensor]:
        states = [torch.get_rng_state()]
        return states if self.kind == "cpu" else [*states, getattr(torch, self.kind).get_rng_state()]

    def moved(self) -> bool:
        """Tell whether anything was drawn since."""
        return any(not torch.equal(a, b) for a, b in zip(self.states, self._now(), strict=True))

    def restore(self) -> None:
        """Put the generators back."""
        torch.set_rng_state(self.states[0])
        if self.kind != "cpu":
            getattr(torch, self.kind).set_rng_state(self.states[1])


class State:
    """Snapshot of what the modules of a model hold: attributes, and tensors with their versions."""

    def __init__(self, model: nn.Module):
        self.attributes = [(name, module, dict(vars(module))) for name, module in model.named_modules()]
        every = [(f"{name}.{key}", value) for name, _, held in self.attributes for key, value in held.items()]
        self.contents = [(name, value, value.copy()) for name, value in every if isinstance(value, CONTAINERS)]
        tensors = dict(model.named_buffers()) | {name: value for name, value in every if isinstance(value, Tensor)}
        self.versions = {name: (t, version(t)) for name, t in (*model.named_parameters(), *tensors.items())}
        self.values = [(tensor, version(tensor), tensor.detach().clone()) for tensor in tensors.values()]

    def changed(self) -> str | None:
        """Name something that is not as it was; None if all is."""
        for name, (tensor, before) in self.versions.items():
            if version(tensor) != before:
                return name.strip(".")
        for name, now, before in self.contents:
            if not _alike(now, before):
                return name.strip(".")
        for name, module, before in self.attributes:
            now = {key: value for key, value in vars(module).items() if not key.startswith(OF_TRACING)}
            if different := [key for key in before.keys() | now.keys() if not _same(now, before, key)]:
                return f"{name}.{min(different)}".strip(".")
        return None

    def restore(self) -> None:
        """Put back all but parameters that were changed in place, of which there is no copy."""
        for _, module, before in self.attributes:
            vars(module).clear()
            vars(module).update(before)
        for _, now, before in self.contents:
            now.clear()
            (now.extend if isinstance(now, list) else now.update)(before)
        with torch.no_grad():
            for tensor, before, value in self.values:
                if version(tensor) != before:
                    tensor.copy_(value)


@contextlib.contextmanager
def untouched(model: nn.Module, x: Tensor) -> Iterator[State]:
    """Leave the generators and the model as they were, whatever is run inside."""
    generators, state = Generators(x), State(model)
    try:
        yield state
    finally:
        generators.restore()
        state.restore()


@contextlib.contextmanager
def holding(model: nn.Module) -> Iterator[None]:
    """Keep the held draws of the weights, whatever `resample` does inside."""
    before = {layer: layer.held_noise for layer in held_in(model).values()}
    try:
        yield
    finally:
        for layer, noise in before.items():
            layer.held_noise = noise


def draws(model: nn.Module, x: Tensor) -> bool:
    """Tell whether a call of the model draws random numbers; generators and model stay as they were."""
    with untouched(model, x), torch.no_grad():
        before = Generators(x)
        model(x)
        return before.moved()


def version(tensor: Tensor) -> int:
    """Count how often a tensor was changed in place; torch does not for tensors of its inference mode."""
    return 0 if tensor.is_inference() else tensor._version


def _same(now: dict[Any, Any], before: dict[Any, Any], key: object) -> bool:
    if key not in now or key not in before:
        return False
    a, b = now[key], before[key]
    return a is b or (type(a) is type(b) and isinstance(a, int | float | str) and a == b)


def _alike(now: object, before: object) -> bool:
    """Tell whether two containers hold the same things in the same order."""
    if isinstance(now, dict):
        return list(now) == list(before) and all(_same(now, before, key) for key in before)
    if isinstance(now, set):
        return now == before
    return len(now) == len(before) and all(_same({0: a}, {0: b}, 0) for a, b in zip(now, before, strict=True))
