"""Dropout whose mask is held in the state `weights`, as a draw of the weights of the next layer is: one mask for a
whole batch, or a whole test set, until `resample()`. In every other state it is torch's.
"""

from typing import Any

import torch
from torch import Tensor, nn

from varnet.nn.layers.state import Held
from varnet.nn.noise import new_key


class HeldDropout(Held):
    """What the kinds of dropout share. A key of the mask is held: the same for inputs of the same shape."""

    p: float
    inplace: bool

    def new_noise(self) -> Tensor:
        return torch.tensor(new_key())

    def forward(self, input: Tensor) -> Tensor:
        if self.held_noise is None or not self.training:
            return super().forward(input)
        mask = self.mask(input, int(self.held_noise))
        return input.mul_(mask) if self.inplace else input * mask

    def mask(self, x: Tensor, key: int) -> Tensor:
        """0 or 1 / (1 - p), for all objects."""
        generator = torch.Generator(x.device).manual_seed(key)
        kept = torch.rand(self.mask_shape(x), generator=generator, device=x.device) >= self.p
        return kept.to(x.dtype) / max(1 - self.p, torch.finfo(x.dtype).tiny)

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        raise NotImplementedError


class Dropout(HeldDropout, nn.Dropout):
    """nn.Dropout: a mask of the shape of an object."""

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape[1:] if x.dim() > 1 else x.shape)


class _Channels(HeldDropout):
    dims: int

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[-self.dims - 1], *[1] * self.dims)


class Dropout1d(_Channels, nn.Dropout1d):
    """nn.Dropout1d: whole channels."""

    dims = 1


class Dropout2d(_Channels, nn.Dropout2d):
    """nn.Dropout2d: whole channels."""

    dims = 2


class Dropout3d(_Channels, nn.Dropout3d):
    """nn.Dropout3d: whole channels."""

    dims = 3


HELD: dict[type[nn.Module], type[Any]] = {
    nn.Dropout: Dropout, nn.Dropout1d: Dropout1d, nn.Dropout2d: Dropout2d, nn.Dropout3d: Dropout3d,
}  # fmt: skip


def hold(module: nn.Module) -> None:
    """Let the dropout inside of a module hold its masks, in place."""
    for part in module.modules():
        if kind := HELD.get(type(part)):
            held: Any = part
            held.__class__ = kind
            held.begin_state()
