"""Optimizers that were made before a network became variational, or before its layers lost their means: at their first
step after it, it is said what they do not train.

A parameterization without means puts a new tensor in the place of the weight, and an optimizer that has the weight
trains nothing; the others keep the weight and have more to learn beside it.
"""

import warnings
import weakref
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from varnet.nn.layers import Variational

_taken: Any = WeakIdKeyDictionary()  # weight of a plain layer -> the random layer that was made of it
_seen: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()
_hooks: list[Any] = []


def remember(weight: Tensor, layer: Variational) -> None:
    """Look out for an optimizer that has this weight."""
    _taken[weight] = weakref.ref(layer)
    if not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(_look))


def look_again() -> None:
    """Look at every optimizer anew: layers have other tensors now."""
    _seen.clear()


def _look(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    if optimizer in _seen:
        return
    _seen.add(optimizer)
    given = [p for group in optimizer.param_groups for p in group["params"]]
    known = [(p, layer) for p in given if p in _taken and (layer := _taken[p]()) is not None]
    trained = {id(p) for p in given}
    lost = [layer for p, layer in known if all(p is not q for q in layer.parameters())]
    learned = [q for p, layer in known for name, q in layer._parameters.items() if name != "bias" and q is not p]
    noise = [q for q in learned if q is not None and q.requires_grad]
    if lost:
        _warn(f"weights that are no longer in the network ({lost[0]})")
    elif noise and not any(id(q) in trained for q in noise):
        _warn(f"the means of the weights but none of what else is learned of them ({known[0][1]})")


def _warn(what: str) -> None:
    warnings.warn(
        f"the optimizer trains {what}: make it after varnet.variational, or requires_grad_(False) what stays fixed",
        stacklevel=5,
    )
