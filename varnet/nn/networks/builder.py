"""A network under construction, layer by layer.

Max pooling comes before the activation: the same function for an increasing activation, with fewer values to activate.
"""

import math
from collections.abc import Iterable

from torch import nn

from varnet.nn.networks.dropping import Dropping

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "leaky_relu": nn.LeakyReLU}


class Builder:
    """A network under construction, which knows the shape of its output so far."""

    def __init__(
        self,
        in_shape: Iterable[int],
        width: float,
        activation: str,
        bias: bool,
        batch_norm: bool | Iterable[str],
        affine: bool,
        dropout: bool | float | str | Iterable[str],
    ) -> None:
        self.net, self.shape = nn.Sequential(), tuple(in_shape)
        self.width, self.activation, self.bias = width, ACTIVATIONS[activation], bias
        self.batch_norm, self.affine = batch_norm, affine
        self.dropping, self.published_rate = Dropping(dropout), 0.0
        self.count = {"conv": 0, "dense": 0, "dropout": 0}

    def conv(self, channels: int, kernel: int, padding: int = 0, pool: bool = False) -> None:
        self._drop("conv")
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

    def all_dense(self, sizes: Iterable[int], classes: int) -> None:
        """Hidden layers of the given sizes and the classifier; dropout before every layer but the first."""
        for i, size in enumerate(sizes):
            if i:
                self.dropout(0.5)
            self.dense(size)
        self.dropout(0.5)
        self.classifier(classes)

    def dropout(self, p: float) -> None:
        """Before the next layer, at the published rate p, unless less is asked for."""
        self.published_rate = p

    def _drop(self, kind: str) -> None:
        rate = self.dropping.rate(f"{kind}{self.count[kind] + 1}", self.published_rate)
        self.published_rate = 0.0
        if rate > 0:
            self._add("dropout", nn.Dropout(rate))

    def _dense(self, features: int) -> None:
        self._drop("dense")
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
