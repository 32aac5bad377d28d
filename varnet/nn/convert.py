"""Turn any nn.Module into a variational one."""

from collections.abc import Iterable
from typing import Any

from torch import nn

from varnet.nn.layers import KINDS, Variational
from varnet.nn.names import select
from varnet.nn.options import made
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior


def variational(
    module: nn.Module,
    layers: str | Iterable[str] = "all",
    param: str | Parameterization = "layer",
    prior: str | Prior = "loguniform",
    **options: Any,
) -> nn.Module:
    """Give the Linear and Conv2d layers of a module random weights, whose means are the weights they have.

    Works in place and returns the module (a new layer if the module is itself a Linear or Conv2d). `layers` is "all",
    a name as in named_modules(), a prefix, a pattern, or a list of these. The options are the fields of the
    parameterization (varnet.nn.params: log_alpha, log_sigma, clip, learn, noise, threshold) and of the prior
    (varnet.nn.priors: estimator, nu, gradient, scale, learn_scale). The means and biases remain the same nn.Parameter
    objects; the other learned tensors are new, so make the optimizer afterwards.
    """
    param, prior = made(param, prior, options)
    kinds = {m: kind for m in module.modules() if (kind := _kind(m)) is not None}
    found = {name: m for name, m in module.named_modules(remove_duplicate=False) if m in kinds}
    if not found and layers not in ("none", []):
        known = " or ".join(f"nn.{kind.__name__}" for kind in KINDS)
        raise ValueError(f"{type(module).__name__} has no layer to make variational: give a module with an {known}")
    chosen = {found[name]: name for name in select(layers, list(found))}
    for layer, name in chosen.items():
        _refuse_altered(name, layer)
    replaced = {layer: kinds[layer].from_deterministic(layer, param, prior) for layer in chosen}
    if module in replaced:
        return replaced[module]
    for parent in list(module.modules()):
        for name, child in list(parent._modules.items()):  # named_children() gives a shared layer only once
            if child in replaced:
                setattr(parent, name, replaced[child])
    _leave_fast_path(module)
    return module


def _leave_fast_path(module: nn.Module) -> None:
    """Let encoder layers call the layers inside of them: in evaluation mode torch would read their weights instead, one
    draw for a whole batch."""
    for part in module.modules():
        if any(isinstance(inner, Variational) for inner in part.modules()):
            if isinstance(part, nn.TransformerEncoderLayer):
                part.activation_relu_or_gelu = 0  # there is no such path for another activation
            if isinstance(part, nn.TransformerEncoder):
                part.use_nested_tensor = False  # what only that path takes


def _kind(module: nn.Module) -> type[Variational] | None:
    """The variational layer for a plain one; a subclass with a forward of its own is another kind of layer."""
    if isinstance(module, nn.LazyLinear | nn.LazyConv2d):
        return None  # it has no weights yet
    return next(
        (ours for theirs, ours in KINDS.items() if getattr(type(module), "forward", None) is theirs.forward), None
    )


def _refuse_altered(name: str, layer: nn.Module) -> None:
    """What a new layer could not carry over, and would change without a word."""
    if "weight" not in layer._parameters:
        raise ValueError(
            f"layer {name!r} computes its weight (weight norm, pruning, a parametrization): remove that first"
        )
    if layer._forward_hooks or layer._forward_pre_hooks:
        raise ValueError(
            f"layer {name!r} has forward hooks, which would be lost: remove them first, or choose `layers`"
        )
