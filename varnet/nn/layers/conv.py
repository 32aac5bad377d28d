"""Convolutions in one, two and three dimensions: of rows, images and volumes.

Noise is drawn per position: marginals are exact, the joint is not (eq. 41).
"""

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from varnet.nn.layers.base import Variational, factory
from varnet.nn.lrt_fast import Convolution, Transposed
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior

Size1 = int | tuple[int]
Size2 = int | tuple[int, int]
Size3 = int | tuple[int, int, int]
Padding = Literal["zeros", "reflect", "replicate", "circular"]
CONVOLVED = {1: "rows", 2: "images", 3: "volumes"}


class Convolutional(Variational):
    """What convolutions of any dimension share."""

    geometry: Convolution | Transposed
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    padding_mode: str

    def take_shape(self, module: Any) -> None:
        self.in_channels, self.out_channels = module.in_channels, module.out_channels
        self.kernel_size = module.kernel_size
        self.geometry = Convolution(module.stride, module.padding, module.dilation, module.groups)
        self.padding_mode, self.border = module.padding_mode, module._reversed_padding_repeated_twice

    def check_input(self, x: Tensor, *_: Any, **__: Any) -> None:
        n = len(self.kernel_size)
        if x.dim() not in (n + 1, n + 2) or x.shape[-n - 1] != self.in_channels:
            shape = f"{CONVOLVED[n]} of {self.in_channels} channels, but got shape {tuple(x.shape)}"
            raise ValueError(f"{self} takes {shape}")

    def prepare(self, x: Tensor) -> tuple[Tensor, Convolution | Transposed]:
        if self.padding_mode == "zeros":
            return x, self.geometry
        return F.pad(x, self.border, mode=self.padding_mode), self.geometry._replace(padding=(0,) * (x.dim() - 2))

    def shape_repr(self) -> str:
        options = ", ".join(f"{key}={value}" for key, value in self.geometry._asdict().items())
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, {options}"


class Conv1d(Convolutional, replaces=nn.Conv1d):
    """nn.Conv1d with random weights."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size1,
        stride: Size1 = 1,
        padding: str | Size1 = 0,
        dilation: Size1 = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Padding = "zeros",
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        shape = in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        self._adopt(nn.Conv1d(*shape, **factory(options)), param, prior, options)


class Conv2d(Convolutional, replaces=nn.Conv2d):
    """nn.Conv2d with random weights."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size2,
        stride: Size2 = 1,
        padding: str | Size2 = 0,
        dilation: Size2 = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Padding = "zeros",
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        shape = in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        self._adopt(nn.Conv2d(*shape, **factory(options)), param, prior, options)


class Conv3d(Convolutional, replaces=nn.Conv3d):
    """nn.Conv3d with random weights."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size3,
        stride: Size3 = 1,
        padding: str | Size3 = 0,
        dilation: Size3 = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Padding = "zeros",
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        shape = in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        self._adopt(nn.Conv3d(*shape, **factory(options)), param, prior, options)
