"""Networks of the paper: layers named conv1.., dense1.., any of which may be variational (sections 3 and 6).

They are written as plain networks, whose chosen layers `convert.variational` then gives random weights. Max pooling
comes before the activation: the same function for an increasing activation, with fewer values to activate.
"""

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import nn

from varnet.base.checks import number, one_of, whole
from varnet.errors import ConfigError
from varnet.nn.convert import variational

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "leaky_relu": nn.LeakyReLU}


class Builder:
    """A network under construction, which knows the shape of its output so far."""

    def __init__(self, in_shape, width: float, activation: str, bias: bool, batch_norm, affine: bool, dropout: bool):
        self.net, self.shape = nn.Sequential(), tuple(in_shape)
        self.width, self.activation, self.bias = width, ACTIVATIONS[activation], bias
        self.batch_norm, self.affine, self.use_dropout = batch_norm, affine, dropout
        self.count = {"conv": 0, "dense": 0, "dropout": 0}

    def conv(self, channels: int, kernel: int, padding: int = 0, pool: bool = False) -> None:
        channels = self._scaled(channels)
        name = self._add("conv", nn.Conv2d(self.shape[0], channels, kernel, padding=padding, bias=self.bias))
        self.shape = (channels, *(n + 2 * padding - kernel + 1 for n in self.shape[1:]))
        self._normalise(name, nn.BatchNorm2d)
        if pool:
            self.net.add_module(f"{name}_pool", nn.MaxPool2d(2))
            self.shape = (channels, *(n // 2 for n in self.shape[1:]))
        self.net.add_module(f"{name}_act", self.activation())

    def dense(self, features: int) -> None:
        """A hidden layer."""
        self._dense(self._scaled(features))
        name = f"dense{self.count['dense']}"
        self._normalise(name, nn.BatchNorm1d)
        self.net.add_module(f"{name}_act", self.activation())

    def classifier(self, classes: int) -> None:
        self._dense(classes)

    def dropout(self, p: float) -> None:
        if self.use_dropout and p > 0:
            self._add("dropout", nn.Dropout(p))

    def _dense(self, features: int) -> None:
        if len(self.shape) > 1:
            self.net.add_module("flatten", nn.Flatten())
        self._add("dense", nn.Linear(math.prod(self.shape), features, bias=self.bias))
        self.shape = (features,)

    def _add(self, kind: str, module: nn.Module) -> str:
        self.count[kind] += 1
        self.net.add_module(f"{kind}{self.count[kind]}", module)
        return f"{kind}{self.count[kind]}"

    def _normalise(self, name: str, norm: type[nn.Module]) -> None:
        if self.batch_norm is True or (self.batch_norm and name in self.batch_norm):
            self.net.add_module(f"{name}_norm", norm(self.shape[0], affine=self.affine))

    def _scaled(self, units: int) -> int:
        return max(1, round(units * self.width))


def lenet5(b: Builder, classes: int) -> None:
    """LeNet-5-Caffe."""
    b.conv(20, 5, pool=True)
    b.conv(50, 5, pool=True)
    b.dropout(0.5)
    b.dense(500)
    b.dropout(0.5)
    b.classifier(classes)


def vgg(b: Builder, classes: int) -> None:
    """VGG-like (Zagoruyko, 2015): blocks of 3x3 convolutions with dropout between them, each ending in a pool."""
    for channels, dropouts in ((64, (0.3,)), (128, (0.4,)), (256, (0.4, 0.4)), (512, (0.4, 0.4)), (512, (0, 0))):
        for p in dropouts:
            b.conv(channels, 3, padding=1)
            b.dropout(p)
        b.conv(channels, 3, padding=1, pool=True)
    b.dropout(0.5)
    b.dense(512)
    b.dropout(0.5)
    b.classifier(classes)


def dense_network(*sizes: int) -> Callable[[Builder, int], None]:
    """Dense layers of the given sizes; dropout before every layer but the first."""

    def network(b: Builder, classes: int) -> None:
        for i, size in enumerate(sizes):
            if i:
                b.dropout(0.5)
            b.dense(size)
        b.dropout(0.5)
        b.classifier(classes)

    return network


@dataclass(frozen=True)
class Network:
    """A network and the paper's choices for it."""

    make: Callable[[Builder, int], None]
    layers: str | tuple[str, ...] = "all"  # which are variational
    bias: bool = True
    batch_norm: bool | tuple[str, ...] = False
    dropout: bool = False
    log_alpha: float = -5.0  # at the start
    image: int = 0  # smallest side of an image; 0: any input, flattened


NETWORKS = {
    "lenet5": Network(lenet5, ("dense1",), bias=False, batch_norm=("conv1", "conv2", "dense1"), image=16),
    "lenet300": Network(dense_network(300, 100)),
    "vgg": Network(
        vgg, ("conv11", "conv12", "conv13", "dense1"), batch_norm=True, dropout=True, log_alpha=-10.0, image=32
    ),
    "fc": Network(dense_network(1000, 1000, 1000)),
    # dense5: two variance neurons. Differs from section 3.2, which has no dense6: without it two classes stay one.
    "toy": Network(dense_network(100, 100, 100, 100, 2, 100), ("dense5",)),
}


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
    dropout: bool | None = None,
    sizes: Iterable[int] | None = None,
    **options,
) -> nn.Sequential:
    """A network for inputs of `in_shape`; what is None is as in the paper (NETWORKS).

    `layers` says by name which layers are variational; `batch_norm` is a switch or the names of the layers that it
    follows, `affine` whether it learns scale and shift (None: yes); `sizes` are the hidden layers of `fc`; `options`
    go to varnet.nn.convert.variational.
    """
    one_of(*NETWORKS)("name", name)
    one_of(*ACTIVATIONS)("activation", activation)
    network = NETWORKS[name]
    in_shape = _checked_input(name, network, in_shape)
    number(0, above=True)("width", width)
    whole(2)("classes", classes)
    make = network.make if sizes is None else dense_network(*_checked_sizes(name, sizes))
    bias, batch_norm, dropout = (
        default if given is None else given
        for given, default in ((bias, network.bias), (batch_norm, network.batch_norm), (dropout, network.dropout))
    )
    batch_norm = (batch_norm,) if isinstance(batch_norm, str) else batch_norm
    builder = Builder(in_shape, width, activation, bias, batch_norm, affine is not False, dropout)
    make(builder, classes)
    net = builder.net
    _check_names("batch_norm", batch_norm, net)
    layers = network.layers if layers is None else layers
    return variational(net, layers, param, prior, **{"log_alpha": network.log_alpha, **options})


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


def _checked_sizes(name: str, sizes: Iterable[int]) -> tuple[int, ...]:
    sizes = tuple(sizes)
    if name != "fc":
        raise ConfigError(f"is an option of model=fc; model={name} has its own, scaled by width", "sizes", list(sizes))
    if not sizes or not all(isinstance(n, int) and n is not True and n > 0 for n in sizes):
        raise ConfigError("is invalid: use whole numbers above 0, one for each hidden layer", "sizes", list(sizes))
    return sizes


def _check_names(key: str, names: bool | Iterable[str], net: nn.Module) -> None:
    known = [n for n, m in net.named_children() if isinstance(m, nn.Linear | nn.Conv2d)]
    for name in () if isinstance(names, bool) else names:
        if name not in known[:-1]:
            raise ConfigError(f"there is no hidden layer {name!r}; choose from: {', '.join(known[:-1])}", key)
