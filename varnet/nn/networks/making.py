"""The name of a network and its options -> the network, its chosen layers variational."""

import numbers
from collections.abc import Iterable
from typing import Any

from torch import nn

from varnet.base.checks import SWITCH, TEXT, Check, list_of, number, one_of, whole
from varnet.errors import ConfigError
from varnet.nn.convert import variational
from varnet.nn.networks.builder import ACTIVATIONS, Builder
from varnet.nn.networks.registry import NETWORKS, Network, own_options

WIDEST = 1000.0  # of what was published
_NAMES = list_of(TEXT, "names")
NORMED = Check(
    lambda v: SWITCH.fits(v) or TEXT.fits(v) or _NAMES.fits(v), "true, false, or names of the layers before it"
)


def build(
    name: str,
    in_shape: Iterable[int],
    classes: int,
    *,
    layers: str | Iterable[str] | None = None,
    param: str = "layer",
    prior: str = "loguniform",
    width: float = 1.0,
    activation: str = "relu",
    bias: bool | None = None,
    batch_norm: bool | Iterable[str] | None = None,
    affine: bool | None = None,
    dropout: bool | float | str | Iterable[str] | None = None,
    init: float | None = None,
    **options: Any,
) -> nn.Sequential:
    """A network for inputs of `in_shape` with so many outputs (of another likelihood than that of classes what it
    takes); what is None is as in the paper (its file in this folder).

    `layers` says by name which layers are variational; `batch_norm` is a switch or the names of the layers that it
    follows, `affine` whether it learns scale and shift (None: yes); `dropout` is a switch, the names of the layers that
    it stands before, or a number up to 1 that multiplies the published rates; `init` draws the weights
    from N(0, init^2) and begins with biases of 0; `options` are those of the network itself, such as `sizes` of `fc`,
    and go to varnet.variational otherwise.
    """
    one_of(*NETWORKS)("name", name)
    one_of(*ACTIVATIONS)("activation", activation)
    network = NETWORKS[name]
    in_shape = _checked_input(name, network, in_shape)
    number(0, WIDEST, above=True)("width", width)
    whole(1)("classes", classes)
    own, options = _own(name, network, options)
    bias = network.bias if bias is None else bias
    dropout = network.dropout if dropout is None else dropout
    normed = network.batch_norm if batch_norm is None else NORMED("batch_norm", batch_norm)
    normed = (normed,) if isinstance(normed, str) else normed
    builder = Builder(in_shape, width, activation, bias, normed, affine is not False, dropout)
    network.make(builder, classes, **own)
    net = builder.net
    _check_names("batch_norm", normed, net)
    builder.dropping.check_names()
    if init is not None:
        _draw(net, number(0, above=True)("init", init))
    layers = network.layers if layers is None else layers
    variational(net, layers, param, prior, **{"log_alpha": network.log_alpha, **options})
    return net


def _draw(net: nn.Module, std: float) -> None:
    """Weights from N(0, std^2), biases 0."""
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _own(name: str, network: Network, options: dict) -> tuple[dict, dict]:
    """Options of this network, None being its own choice, and the others."""
    owners = own_options()
    for key, value in options.items():
        if key in owners and key not in network.options and value is not None:
            raise ConfigError(
                f"is an option of model={owners[key]}; model={name} has its own, scaled by width", key, value
            )
    own = {key: value for key, value in options.items() if key in network.options and value is not None}
    return own, {key: value for key, value in options.items() if key not in owners}


def _checked_input(name: str, network: Network, in_shape: Iterable[int]) -> tuple[int, ...]:
    sizes = tuple(in_shape) if isinstance(in_shape, Iterable) else (in_shape,)
    if not sizes or not all(isinstance(n, numbers.Integral) and n > 0 for n in sizes):
        raise ConfigError("is invalid: use whole numbers above 0, e.g. (1, 28, 28)", "in_shape", in_shape)
    in_shape = sizes
    if network.image and (len(in_shape) != 3 or min(in_shape[1:]) < network.image):
        raise ConfigError(
            f"takes images of at least {network.image}x{network.image} pixels, got inputs of shape {in_shape}: choose "
            "another dataset or size, or model=fc", "name", name,
        )  # fmt: skip
    return in_shape


def _check_names(key: str, names: bool | Iterable[str], net: nn.Module) -> None:
    known = [n for n, m in net.named_children() if isinstance(m, nn.Linear | nn.Conv2d)]
    for name in () if isinstance(names, bool) else names:
        if name not in known[:-1]:
            raise ConfigError(f"there is no hidden layer {name!r}; choose from: {', '.join(known[:-1])}", key)
