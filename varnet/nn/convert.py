"""Turn any nn.Module into a variational one."""

import logging
import warnings
from collections.abc import Iterable
from typing import Any

from torch import nn

from varnet.base.checks import SWITCH
from varnet.nn import stale
from varnet.nn.inventory import inventory
from varnet.nn.layers import KINDS, Variational
from varnet.nn.layers.dropout import hold
from varnet.nn.layers.host import Host
from varnet.nn.layers.parts import PARTS
from varnet.nn.matching import Match, is_unknown, match
from varnet.nn.names import select
from varnet.nn.options import made
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior
from varnet.nn.tying import New, rename_ties, tie, warn_of_plain_users

log = logging.getLogger("varnet")
CARRIED = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook",
    "_state_dict_hooks", "_state_dict_pre_hooks",
)  # fmt: skip
LOST = ("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")  # which know the layer that they are on


def variational(
    module: nn.Module,
    layers: str | Iterable[str] = "all",
    param: str | Parameterization = "layer",
    prior: str | Prior = "loguniform",
    *,
    random_bias: bool = False,
    hold_dropout: bool = False,
    **options: Any,
) -> nn.Module:
    """Give the layers of a module random weights, whose means are the weights they have.

    Works in place and returns the module (a new layer if the module is itself a Linear, say). `layers` is "all", a name
    as in named_modules(), a prefix, a pattern, or a list of these. With `random_bias` the biases of these layers are
    random, too; with `hold_dropout` the state `weights` holds the masks of dropout. The options are the fields of the
    parameterization (varnet.nn.params: log_alpha, log_sigma, clip, learn, noise, threshold) and of the prior
    (varnet.nn.priors: estimator, nu, gradient, scale, learn_scale). The means and biases remain the same nn.Parameter
    objects; the other learned tensors are new, so make the optimizer afterwards.

    Layers that share a weight share its posterior. What is random now, and what is not and why, says
    varnet.inventory(module), which is logged ("varnet", INFO); a warning says what "all" could not mean.
    """
    SWITCH("random_bias", random_bias)
    SWITCH("hold_dropout", hold_dropout)
    param, prior = made(param, prior, options)
    chosen = _chosen(module, layers)
    found = {layer: _made(layer, name, one, param, prior, random_bias) for layer, (name, one) in chosen.items()}
    new = [each for _, (_, of_layer) in found.items() for each in of_layer]
    for each in new:
        stale.remember(each.weight, each.layer)
    result = _committed(module, {layer: ready for layer, (ready, _) in found.items()}, chosen)
    pairs = tie(result, new)
    warn_of_plain_users(result, new)
    rename_ties(result, pairs)
    if hold_dropout:
        hold(result)
    _leave_fast_path(result)
    _tell(result, layers)
    return result


def _chosen(module: nn.Module, layers: str | Iterable[str]) -> dict[nn.Module, tuple[str, Match]]:
    """The layers that become random, with a name each."""
    kinds = {m: one for m in module.modules() if (one := match(m)) is not None}
    found = {name: m for name, m in module.named_modules(remove_duplicate=False) if m in kinds}
    if not found and layers not in ("none", []):
        known = " or ".join(sorted(f"nn.{kind.__name__}" for kind in KINDS))
        raise ValueError(f"{type(module).__name__} has no layer to make variational: give a module with an {known}")
    chosen = {found[name]: (name, kinds[found[name]]) for name in select(layers, list(found))}
    for name, one in chosen.values():
        _refuse_altered(name, one)
    return chosen


def _made(
    layer: nn.Module, name: str, found: Match, param: Parameterization, prior: Prior, random_bias: bool
) -> tuple[Any, list[New]]:
    """What takes a layer's place, and the posteriors in it. The layer is as it was."""
    kind, source = found
    if issubclass(kind, Host):
        parts = kind.random_parts(source, param, prior, random_bias)
        return parts, [New(_inside(name, key), part, source._parameters[key]) for key, part in parts.items()]
    new = kind.from_deterministic(source, param, prior, **({"random_bias": True} if random_bias else {}))
    of_bias = [New(_inside(name, key), part, getattr(source, key)) for key, part in new.parts().items()]
    return new, [New(name, new, source.weight), *of_bias]


def _inside(name: str, key: str) -> str:
    return f"{name}.{PARTS}.{key}".removeprefix(".")


def _committed(module: nn.Module, ready: dict[nn.Module, Any], chosen: dict[nn.Module, tuple[str, Match]]) -> nn.Module:
    """Put what was made into its places: no error comes after this."""
    replaced = {}
    for layer, one in ready.items():
        name, (kind, source) = chosen[layer]
        new = kind.change(source, one) if issubclass(kind, Host) else one
        if new is not layer:
            _carry_hooks(name, layer, new)
            replaced[layer] = new
    if module in replaced:
        return replaced[module]
    for parent in list(module.modules()):
        for name, child in list(parent._modules.items()):  # named_children() gives a shared layer only once
            if child in replaced:
                setattr(parent, name, replaced[child])
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


def _refuse_altered(name: str, one: Match) -> None:
    """What a new layer could not carry over, and would change without a word."""
    weights = one.kind.weights_of(one.source) if issubclass(one.kind, Host) else ["weight"]
    if any(one.source._parameters.get(key) is None for key in weights):
        raise ValueError(
            f"layer {name!r} computes its weight (weight norm, pruning, a parametrization): remove that first"
        )


def _carry_hooks(name: str, layer: nn.Module, new: nn.Module) -> None:
    """The same dictionaries, so that the handles of the hooks still remove them."""
    vars(new).update({key: vars(layer)[key] for key in CARRIED if key in vars(layer)})
    if lost := [key for key in LOST if vars(layer).get(key)]:
        warnings.warn(f"layer {name!r} loses its hooks on loading ({', '.join(lost)}): add them anew", stacklevel=4)


def _tell(module: nn.Module, layers: str | Iterable[str]) -> None:
    if log.isEnabledFor(logging.INFO):
        log.info("%s", inventory(module))
    if layers != "all":
        return
    left = [row for row in inventory(module) if row.weights and is_unknown(module.get_submodule(row.name))]
    if left:
        names = ", ".join(f"{row.name or 'the module'} ({row.kind}: {row.why})" for row in left[:3])
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        warnings.warn(
            f"layers=all leaves {len(left)} with weights as they are: {names}{more}; varnet.inventory(model) lists "
            "all, and names in `layers` say that it is meant so", stacklevel=3,
        )  # fmt: skip
