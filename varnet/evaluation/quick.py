"""Modules with the same values that are faster when called many times without a gradient."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varnet.evaluation.probing import samples_locally
from varnet.nn import lrt_fast as local
from varnet.nn.layers import Variational


def quick(part: object) -> object:
    """Return the faster module in place of a module; whatever has none stays as it is."""
    if samples_locally(part) and _is_usual(part):
        return _Frozen(part)
    return _Pool() if isinstance(part, nn.MaxPool2d) and _is_plain_pool(part) else part


def _is_usual(layer: Variational) -> bool:
    """A kind of layer may sample in a way of its own."""
    kind = type(layer)
    usual = kind.forward is Variational.forward and kind.sample is Variational.sample
    return usual and layer.part("bias") is None


class _Frozen(nn.Module):
    """Layer whose weights do not change between samples: their variances are computed once."""

    def __init__(self, layer: Variational):
        super().__init__()
        self.layer = layer
        self.moments: tuple[Tensor | None, local.WeightVariance] | None = None

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        if local.low_precision(inputs[0]) is not None or torch.is_grad_enabled():
            return self.layer(*inputs, **options)
        self.layer.check_input(*inputs, **options)
        x, conv = self.layer.prepare(*inputs, **options)
        if self.moments is None:
            self.moments = self.layer.frozen(conv)
        mean, variance = self.moments
        mean_of_output = local.output_mean(x, mean, self.layer.bias, conv)
        return self.layer.restore(local.sample(mean_of_output, local.variance_without_grad(x, *variance, conv)))


class _Pool(nn.Module):
    """Max pooling over 2x2 as two maxima, without the positions that only a gradient needs."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return F.max_pool2d(x, 2)
        height, width = (n // 2 * 2 for n in x.shape[-2:])
        rows = torch.maximum(x[..., 0:height:2, :width], x[..., 1:height:2, :width])
        return torch.maximum(rows[..., 0::2], rows[..., 1::2])


def _is_plain_pool(pool: nn.MaxPool2d) -> bool:
    sizes = (pool.kernel_size, pool.stride, pool.padding, pool.dilation)
    plain = [size in (value, (value, value)) for size, value in zip(sizes, (2, 2, 0, 1), strict=True)]
    return all(plain) and not pool.return_indices and not pool.ceil_mode
