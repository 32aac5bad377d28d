"""Optimizers that were made before a network became variational, or before its layers lost their means: at their first
or second step after it, when every other optimizer of the network has made one too, it is said what they do not train.

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
_trained: Any = WeakIdKeyDictionary()  # what any optimizer has
_steps: "weakref.WeakKeyDictionary[torch.optim.Optimizer, int]" = weakref.WeakKeyDictionary()  # that were looked at
_hooks: list[Any] = []


def remember(weight: Tensor, layer: Variational) -> None:
    """Look out for an optimizer that has this weight."""
    _taken[weight] = weakref.ref(layer)
    if not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(_look))


def look_again() -> None:
    """Look at every optimizer anew: layers have other tensors now."""
    _steps.clear()


def _look(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    step = _steps.get(optimizer, 0)
    if step > 1:
        return
    _steps[optimizer] = step + 1
    given = [p for group in optimizer.param_groups for p in group["params"]]
    known = [(p, layer) for p in given if p in _taken and (layer := _taken[p]()) is not None]
    if step == 0:
        _trained.update(dict.fromkeys(given, True))
        if lost := [layer for p, layer in known if all(p is not q for q in layer.parameters())]:
            _steps[optimizer] = 2  # which says it all
            _warn(f"weights that are no longer in the network ({lost[0]})")
        return
    learned = [q for p, layer in known for name, q in layer._parameters.items() if name != "bias" and q is not p]
    noise = [q for q in learned if q is not None and q.requires_grad]
    if noise and not any(q in _trained for q in noise):  # nor does another optimizer, which would have stepped by now
        _warn(f"the means of the weights but none of what else is learned of them ({known[0][1]})")


def _warn(what: str) -> None:
    warnings.warn(
        f"the optimizer trains {what}: make it after varnet.variational, or requires_grad_(False) what stays fixed",
        stacklevel=5,
    )
