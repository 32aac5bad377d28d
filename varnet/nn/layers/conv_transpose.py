"""Transposed convolutions in one, two and three dimensions, as decoders have them.

The weights have the channels of the input first; an output unit is a channel of the output, as everywhere. Noise is
drawn per position: marginals are exact, the joint is not.
"""

from collections.abc import Sequence
from typing import Any

from torch import Size, Tensor, nn

from varnet.nn.layers.base import factory
from varnet.nn.layers.conv import Convolutional, Size1, Size2, Size3
from varnet.nn.lrt_fast import Transposed
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior


class ConvolutionalTransposed(Convolutional):
    """What transposed convolutions of any dimension share."""

    geometry: Transposed
    output_axis = 1
    alpha_in_std = True

    def take_shape(self, module: Any) -> None:
        super().take_shape(module)
        self.geometry = Transposed(module.stride, module.padding, module.output_padding, module.groups, module.dilation)

    @property
    def outputs(self) -> int:
        return self.out_channels

    def spread(self, values: Tensor) -> Tensor:
        groups = self.geometry.groups
        rows = values.view(groups, 1, -1).expand(-1, self.in_channels // groups, -1)  # (group, in of it, out of it)
        return rows.reshape(*self.weight_shape[:2], *[1] * len(self.kernel_size))

    def prepare(self, x: Tensor, output_size: Sequence[int] | None = None) -> tuple[Tensor, Transposed]:
        if output_size is None:
            return x, self.geometry
        return x, self.geometry._replace(output_padding=self._padding_for(x, output_size))

    def _padding_for(self, x: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """What has to be added at one end of the smallest output, to give one of the wanted size."""
        n = len(self.kernel_size)
        stride, padding, _, _, dilation = self.geometry
        wanted = Size(output_size)[-n:]
        sizes = zip(x.shape[-n:], stride, padding, dilation, self.kernel_size, strict=True)
        least = [(size - 1) * s - 2 * p + d * (k - 1) + 1 for size, s, p, d, k in sizes]
        more = tuple(w - low for w, low in zip(wanted, least, strict=True))
        if not all(0 <= extra < s for extra, s in zip(more, stride, strict=True)):
            most = [low + s - 1 for low, s in zip(least, stride, strict=True)]
            raise ValueError(f"output_size={tuple(output_size)} is invalid: use sizes from {least} to {most}")
        return more


class ConvTranspose1d(ConvolutionalTransposed, replaces=nn.ConvTranspose1d):
    """nn.ConvTranspose1d with random weights."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size1,
        stride: Size1 = 1,
        padding: Size1 = 0,
        output_padding: Size1 = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size1 = 1,
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        shape: Any = in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        self._adopt(nn.ConvTranspose1d(*shape, **factory(options)), param, prior, options)


class ConvTranspose2d(ConvolutionalTransposed, replaces=nn.ConvTranspose2d):
    """nn.ConvTranspose2d with random weights."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size2,
        stride: Size2 = 1,
        padding: Size2 = 0,
        output_padding: Size2 = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size2 = 1,
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        shape: Any = in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        self._adopt(nn.ConvTranspose2d(*shape, **factory(options)), param, prior, options)


class ConvTranspose3d(ConvolutionalTransposed, replaces=nn.ConvTranspose3d):
    """nn.ConvTranspose3d with random weights."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size3,
        stride: Size3 = 1,
        padding: Size3 = 0,
        output_padding: Size3 = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size3 = 1,
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        shape: Any = in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        self._adopt(nn.ConvTranspose3d(*shape, **factory(options)), param, prior, options)
