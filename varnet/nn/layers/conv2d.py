"""A convolution of images."""

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from varnet.nn.layers.base import Variational, factory
from varnet.nn.lrt_fast import Convolution
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior


class Conv2d(Variational, replaces=nn.Conv2d):
    """nn.Conv2d with random weights. Noise is drawn per position: marginals are exact, the joint is not (eq. 41)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        module = nn.Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            **factory(options),
        )
        self._adopt(module, param, prior, options)

    def take_shape(self, module: Any) -> None:
        self.in_channels, self.out_channels = module.in_channels, module.out_channels
        self.kernel_size = module.kernel_size
        self.geometry = Convolution(module.stride, module.padding, module.dilation, module.groups)
        self.padding_mode, self.border = module.padding_mode, module._reversed_padding_repeated_twice

    def check_input(self, x: Tensor) -> None:
        if x.dim() not in (3, 4) or x.shape[-3] != self.in_channels:
            raise ValueError(f"{self} takes images of {self.in_channels} channels, but got shape {tuple(x.shape)}")

    def prepare(self, x: Tensor) -> tuple[Tensor, Convolution]:
        if self.padding_mode == "zeros":
            return x, self.geometry
        return F.pad(x, self.border, mode=self.padding_mode), self.geometry._replace(padding=(0, 0))

    def shape_repr(self) -> str:
        stride, padding, dilation, groups = self.geometry
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={stride}, "
            f"padding={padding}, dilation={dilation}, groups={groups}"
        )
