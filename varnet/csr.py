"""Linear and Conv2d that store and multiply only their nonzero weights: compressed sparse rows (CSR) for inference.

A convolution is a sparse matrix too: each nonzero weight appears once for every position of the output. It is made for
the image size of the first batch. When a sparse product is faster than a dense one was measured on one CPU thread
(scripts/bench.py compress): dense kernels are up to twenty times faster per weight, so few weights must remain.
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


class SparseLinear(nn.Module):
    """nn.Linear without its zeros."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        weight = layer.weight.detach()
        self.out_features, self.in_features = weight.shape
        rows, columns = weight.nonzero(as_tuple=True)
        self.register_buffer("weight", matrix(rows, columns, weight[rows, columns], tuple(weight.shape)))
        bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().clone()
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            return product(self.weight, x, self.bias)
        return product(self.weight, x.reshape(-1, self.in_features), self.bias).reshape(*x.shape[:-1], -1)

    @property
    def nonzero(self) -> int:
        return self.weight._nnz()

    def to_dense(self) -> nn.Linear:
        return plain_linear(self.weight.to_dense(), self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, nonzero={self.nonzero}"


class SparseConv2d(nn.Module):
    """nn.Conv2d without its zeros, channels-last."""

    def __init__(self, layer: nn.Conv2d):
        super().__init__()
        weight = layer.weight.detach()
        self.weight_shape, self.options = tuple(weight.shape), conv_options(layer)
        position = weight.flatten().nonzero()[:, 0]
        self.register_buffer("position", position.int())
        self.register_buffer("value", weight.flatten()[position].clone())
        bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().clone()
        self.register_buffer("bias", bias)
        self._prepared = (None, None, None, None)  # of the last image size: (key, output size, matrix, bias)

    def forward(self, x: Tensor) -> Tensor:
        size, a, bias = self._for(x)
        y = product(a, x.permute(0, 2, 3, 1).reshape(len(x), -1), bias)
        return y.contiguous().view(len(x), *size, self.weight_shape[0]).permute(0, 3, 1, 2)

    def _for(self, x: Tensor) -> tuple[tuple[int, int], Tensor, Tensor]:
        key = (tuple(x.shape[1:]), x.device)
        if self._prepared[0] != key:
            self._prepared = (key, *self._matrix(*x.shape[1:]))
        return self._prepared[1:]

    def _matrix(self, channels: int, height: int, width: int) -> tuple[tuple[int, int], Tensor, Tensor]:
        """Rows are (position, output channel), columns (pixel, input channel): both ends are channels-last."""
        out, inward, *kernel = self.weight_shape
        if channels != inward:
            raise ValueError(f"the layer takes images of {inward} channels, got {channels}")
        device, spatial = self.value.device, {k: self.options[k] for k in ("stride", "padding", "dilation")}
        pixels = torch.arange(1, height * width + 1, dtype=torch.double, device=device).view(1, 1, height, width)
        source = F.unfold(pixels, kernel, **spatial)[0].long() - 1  # (kernel, positions); -1 is padding
        step, pad, dilation = (spatial[k] for k in ("stride", "padding", "dilation"))
        size = tuple(
            (n + 2 * pad[i] - dilation[i] * (kernel[i] - 1) - 1) // step[i] + 1 for i, n in enumerate((height, width))
        )
        flat, taps = self.position.long(), kernel[0] * kernel[1]
        o, c, tap = flat // (inward * taps), flat // taps % inward, flat % taps
        pixel = source[tap]  # (nonzero, positions)
        rows = torch.arange(pixel.shape[1], device=device) * out + o[:, None]
        inside = pixel >= 0
        columns, values = pixel * inward + c[:, None], self.value[:, None].expand_as(pixel)
        shape = (pixel.shape[1] * out, height * width * inward)
        return size, matrix(rows[inside], columns[inside], values[inside], shape), self.bias.repeat(pixel.shape[1])

    @property
    def nonzero(self) -> int:
        return len(self.value)

    def to_dense(self) -> nn.Conv2d:
        weight = self.value.new_zeros(self.weight_shape)
        weight.view(-1)[self.position.long()] = self.value
        return plain_conv(weight, self.bias, self.options)

    def extra_repr(self) -> str:
        return f"{self.weight_shape[1]}, {self.weight_shape[0]}, nonzero={self.nonzero}"


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
