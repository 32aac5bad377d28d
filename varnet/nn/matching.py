"""Which kind of random layer takes the place of a module, or why none does.

A layer of torch is known by its class, a subclass by the forward that it inherits. Look-alikes of other libraries are
in a table by their import path, so that nothing is imported for them; `register_layer` adds to it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from varnet.errors import ConfigError
from varnet.nn.layers import KINDS, Held, Linear, Parted
from varnet.nn.layers.host import Host
from varnet.nn.layers.transposed import LinearTransposed

Adapter = type[Parted] | Callable[[Any], nn.Module]
LOOK_ALIKES: dict[str, Adapter] = {
    "timm.layers.linear.Linear": Linear,
    "timm.models.layers.linear.Linear": Linear,
    "transformers.pytorch_utils.Conv1D": LinearTransposed,
    "transformers.modeling_utils.Conv1D": LinearTransposed,
}
NORMS = (
    nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.LocalResponseNorm, nn.RMSNorm,
)  # fmt: skip
LAZY = nn.modules.lazy.LazyModuleMixin


class Match(NamedTuple):
    """A kind of random layer, and the plain layer whose weights it takes."""

    kind: type[Any]
    source: Any


def register_layer(kind: type[nn.Module] | str, adapter: Adapter) -> None:
    """Tell `variational` what to do with a layer that is not torch's.

    kind      its class, or the import path of that ("timm.layers.linear.Linear")
    adapter   the random layer that computes the same from its `weight` and `bias`: varnet.Linear, LinearTransposed, a
              class of your own; or a function that returns a plain layer of torch with the same nn.Parameter objects
    """
    path = kind if isinstance(kind, str) else _path(kind)
    if "." not in path.strip("."):
        raise ConfigError("is invalid: use a class, or its import path as in timm.layers.linear.Linear", "kind", kind)
    if not callable(adapter) or (isinstance(adapter, type) and not issubclass(adapter, Parted)):
        raise ConfigError("is invalid: use a random layer such as varnet.Linear, or a function", "adapter", adapter)
    LOOK_ALIKES[path] = adapter


def match(module: nn.Module) -> Match | None:
    """The kind for a plain layer; None for any other module, such as one with a forward of its own."""
    if isinstance(module, LAZY | Held | Host):
        return None  # without weights yet, or random already
    if adapter := _adapter(module):
        if isinstance(adapter, type):
            return Match(adapter, module)
        plain = adapter(module)
        kind = _torch_kind(plain)
        if kind is None:
            raise ConfigError(
                f"gives a {type(plain).__name__}: return a layer of torch", "adapter", _path(type(module))
            )
        return Match(kind, plain)
    kind = _torch_kind(module)
    return None if kind is None or kind.unfit(module) else Match(kind, module)


def why_not(module: nn.Module) -> str:
    """Why a module that has parameters of its own is not random."""
    if isinstance(module, LAZY):
        return "it has no weights yet: call the model once before"
    if isinstance(module, NORMS):
        return "a norm: scale and shift are point estimates"
    kind = _torch_kind(module)
    if kind is not None:
        return kind.unfit(module) or "not chosen by `layers`"
    if _adapter(module):
        return "not chosen by `layers`"
    if any(issubclass(type(module), theirs) for theirs in KINDS):
        return "a subclass with a forward of its own: varnet.register_layer tells what it is"
    if isinstance(module, nn.PReLU):
        return "an activation: its slope is a point estimate"
    return "not a known kind of layer: varnet.register_layer tells what it is"


def is_unknown(module: nn.Module) -> bool:
    """Whether a module would have to be registered, or changed, to become random."""
    if isinstance(module, (Held, Host, nn.PReLU, *NORMS)):
        return False
    return match(module) is None


def _torch_kind(module: nn.Module) -> type[Any] | None:
    forward = getattr(type(module), "forward", None)
    return next((ours for theirs, ours in KINDS.items() if forward is theirs.forward), None)


def _adapter(module: nn.Module) -> Adapter | None:
    """Of the class, or of one that it has its forward from."""
    forward = getattr(type(module), "forward", None)
    heirs = (cls for cls in type(module).__mro__ if getattr(cls, "forward", None) is forward)
    return next((LOOK_ALIKES[path] for cls in heirs if (path := _path(cls)) in LOOK_ALIKES), None)


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
