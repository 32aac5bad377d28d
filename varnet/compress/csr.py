"""Linear and Conv2d that store and multiply only their nonzero weights: compressed sparse rows (CSR) for inference.

A convolution is a sparse matrix too: each nonzero weight appears once for every position of the output. It is made for
the image size of the first batch. A sparse product costs at least five times more per weight than a dense one (one CPU
thread, batch 1 and 200), so the limits below are well under a fifth: there the sparse layer is 1.1 to 5 times faster
for a batch, and for one image if the layer is not small.
"""

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LINEAR_DENSITY, LINEAR_WEIGHTS = 0.1, 10_000  # CSR at or below this share of nonzero weights, from this many weights on
CONV_DENSITY, CONV_WEIGHTS = 0.03, 10_000


def worthwhile(layer: nn.Linear | nn.Conv2d) -> bool:
    """Whether the sparse layer is the faster one; without MKL torch has no fast product with CSR on a CPU."""
    if not torch.backends.mkl.is_available():
        return False
    conv = isinstance(layer, nn.Conv2d)
    if conv and (layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str)):
        return False
    density, weights = (CONV_DENSITY, CONV_WEIGHTS) if conv else (LINEAR_DENSITY, LINEAR_WEIGHTS)
    count = layer.weight.numel()
    return count >= weights and int(layer.weight.count_nonzero()) <= density * count


def matrix(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor with int32 indices, from entries in any order."""
    order = (rows * shape[1] + columns).argsort()
    ends = torch.bincount(rows, minlength=shape[0]).cumsum(0)
    starts = torch.cat((ends.new_zeros(1), ends)).int()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(starts, columns[order].int(), values[order], shape, check_invariants=True)


def product(a: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    """x A^T + bias for x of shape (batch, in); the result is laid out as (out, batch)."""
    if len(x) == 1:
        return torch.addmv(bias, a, x[0])[None]
    return torch.addmm(bias[:, None].expand(-1, len(x)), a, x.t().contiguous()).t()


class Sparse(nn.Module):
    """The nonzero weights and their places. The matrix is made of them at the first batch; copies leave it out."""

    def __init__(self, layer: nn.Linear | nn.Conv2d):
        super().__init__()
        weight = layer.weight.detach()
        self.weight_shape = tuple(weight.shape)
        place = weight.flatten().nonzero()[:, 0]
        self.register_buffer("place", place.int())
        self.register_buffer("value", weight.flatten()[place].clone())
        bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().clone()
        self.register_buffer("bias", bias)
        self._prepared: tuple = (None, None)  # (what for, the result)

    @property
    def nonzero(self) -> int:
        return len(self.value)

    def dense_weight(self) -> Tensor:
        weight = self.value.new_zeros(self.weight_shape)
        weight.view(-1)[self.place.long()] = self.value
        return weight

    def prepared(self, *size: int) -> tuple:
        """What `prepare` gives for inputs of this size, the last one kept."""
        key, result = self._prepared
        if key != size:
            with torch.inference_mode(False), torch.no_grad():
                result = self.prepare(*size)
            self._prepared = (size, result)
        return result

    def _apply(self, fn, recurse=True):  # another device or precision
        self._prepared = (None, None)
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict:  # torch copies no CSR tensor
        return {**self.__dict__, "_prepared": (None, None)}

    def extra_repr(self) -> str:
        return f"{self.weight_shape[1]}, {self.weight_shape[0]}, nonzero={self.nonzero}"


class SparseLinear(Sparse):
    """nn.Linear without its zeros."""

    def forward(self, x: Tensor) -> Tensor:
        a = self.prepared(x.shape[-1])
        if x.dim() == 2:
            return product(a, x, self.bias)
        return product(a, x.reshape(-1, x.shape[-1]), self.bias).reshape(*x.shape[:-1], -1)

    def prepare(self, features: int) -> Tensor:
        inward = self.weight_shape[1]
        if features != inward:
            raise ValueError(f"the layer takes inputs of {inward} features, got {features}")
        place = self.place.long()
        return matrix(place // inward, place % inward, self.value, self.weight_shape)

    def to_dense(self) -> nn.Linear:
        return plain_linear(self.dense_weight(), self.bias)


class SparseConv2d(Sparse):
    """nn.Conv2d without its zeros, channels-last."""

    def __init__(self, layer: nn.Conv2d):
        super().__init__(layer)
        self.options = conv_options(layer)

    def forward(self, x: Tensor) -> Tensor:
        size, a, bias = self.prepared(*x.shape[1:])
        y = product(a, x.permute(0, 2, 3, 1).reshape(len(x), -1), bias)
        return y.contiguous().view(len(x), *size, self.weight_shape[0]).permute(0, 3, 1, 2)

    def prepare(self, channels: int, height: int, width: int) -> tuple[tuple[int, int], Tensor, Tensor]:
        """(size of the output, matrix, bias of every row) for images of this size.

        Rows are (position, output channel), columns (pixel, input channel): both ends are channels-last.
        """
        out, inward, *kernel = self.weight_shape
        if channels != inward:
            raise ValueError(f"the layer takes images of {inward} channels, got {channels}")
        place, taps = self.place.long(), kernel[0] * kernel[1]
        o, c, tap = place // (inward * taps), place // taps % inward, place % taps
        pixel = self._pixels(height, width)[tap]  # (nonzero, positions)
        positions, inside = pixel.shape[1], pixel >= 0
        rows = torch.arange(positions, device=pixel.device) * out + o[:, None]
        columns, values = pixel * inward + c[:, None], self.value[:, None].expand_as(pixel)
        shape = (positions * out, height * width * inward)
        a = matrix(rows[inside], columns[inside], values[inside], shape)
        return self._size(height, width), a, self.bias.repeat(positions)

    def _pixels(self, height: int, width: int) -> Tensor:
        """(taps of the kernel, positions): which pixel each tap sees; -1 is padding."""
        number = torch.arange(1, height * width + 1, dtype=torch.double, device=self.value.device)
        spatial = {key: self.options[key] for key in ("stride", "padding", "dilation")}
        return F.unfold(number.view(1, 1, height, width), self.weight_shape[2:], **spatial)[0].long() - 1

    def _size(self, *size: int) -> tuple[int, ...]:
        stride, padding, dilation = (self.options[key] for key in ("stride", "padding", "dilation"))
        reach = [d * (k - 1) + 1 for d, k in zip(dilation, self.weight_shape[2:], strict=True)]
        return tuple((size[i] + 2 * padding[i] - reach[i]) // stride[i] + 1 for i in range(2))

    def to_dense(self) -> nn.Conv2d:
        return plain_conv(self.dense_weight(), self.bias, self.options)


def conv_options(layer: nn.Conv2d) -> dict:
    return {key: getattr(layer, key) for key in ("stride", "padding", "dilation", "groups", "padding_mode")}


def plain_linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """nn.Linear with these weights, none drawn."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    return _filled(layer, weight, bias)


def plain_conv(weight: Tensor, bias: Tensor | None, options: dict) -> nn.Conv2d:
    inward = weight.shape[1] * options["groups"]
    layer = nn.Conv2d(inward, weight.shape[0], tuple(weight.shape[2:]), bias=bias is not None, device="meta", **options)
    return _filled(layer, weight, bias)


def _filled(layer: nn.Module, weight: Tensor, bias: Tensor | None) -> nn.Module:
    layer.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    layer.bias = None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)
    return layer.eval()
