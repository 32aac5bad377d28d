"""Local reparameterization: b = a mu + noise * sqrt(a^2 sigma^2), drawn per object and position (eqs. 4, 39-42).

`reparameterize` is the whole idea in six lines of torch. `_Fused` is the same map with its gradient written out for
eager training: everything after the two products happens in place, one tensor of the size of the output is kept for
the backward pass (noise / std) instead of four, and the factors 2 of the squares cancel. It is used wherever it
applies; torch.compile, torch.func and half precision take the plain path.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-16  # added to the variance under the square root, as in the paper's runs


class Convolution(NamedTuple):
    """Where the weights of a convolution are applied; None in its place means a dense layer."""

    stride: tuple[int, int]
    padding: tuple[int, int] | str
    dilation: tuple[int, int]
    groups: int


def product(x: Tensor, weight: Tensor, bias: Tensor | None, conv: Convolution | None) -> Tensor:
    return F.linear(x, weight, bias) if conv is None else F.conv2d(x, weight, bias, *conv)


def deviation(x: Tensor, base: Tensor, scale: Tensor | None, conv: Convolution | None) -> Tensor:
    """sqrt(scale * (a^2 base)): the standard deviation of the output; weights have the variance scale * base."""
    variance = _squares(x, base, conv)
    return (variance if scale is None else variance * scale).add(EPS).sqrt()


def reparameterize(
    x: Tensor, mean: Tensor | None, base: Tensor, bias: Tensor | None, scale: Tensor | None, conv: Convolution | None
) -> Tensor:
    """One sample of the layer's output. mean=None stands for weights of mean zero."""
    if _fusible(x, conv):
        return _Fused.apply(x, mean, base, bias, scale, conv)
    std = deviation(x, base, scale, conv)
    return shifted(location(x, mean, bias, conv), std, noise_like(std), _low_precision(x))


def location(x: Tensor, mean: Tensor | None, bias: Tensor | None, conv: Convolution | None) -> Tensor | None:
    """The mean of the output; None for 0."""
    if mean is not None:
        return product(x, mean, bias, conv)
    return None if bias is None else _per_output(bias, conv)


def shifted(mean: Tensor | None, std: Tensor, noise: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """mean + std * noise; in the given low precision, where a large value is held at the largest finite one."""
    if dtype is None:
        return std * noise if mean is None else torch.addcmul(mean, std, noise)
    wide = std * noise if mean is None else mean.float() + std * noise
    limit = torch.finfo(dtype).max
    return wide.clamp(-limit, limit).to(dtype)


def noise_like(x: Tensor) -> Tensor:
    """Standard normal noise in the layout of x. A channels-last draw is slow, so it is drawn flat and permuted."""
    if x.dim() == 4 and x.stride(1) == 1 and x.shape[1] > 1:
        n, c, h, w = x.shape
        return torch.randn(n, h, w, c, dtype=x.dtype, device=x.device).permute(0, 3, 1, 2)
    return torch.randn(x.shape, dtype=x.dtype, device=x.device)


def _low_precision(x: Tensor) -> torch.dtype | None:
    """The precision in which products run if it is half of one kind or the other."""
    kind = x.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
    return dtype if dtype in (torch.float16, torch.bfloat16) else None


def _squares(x: Tensor, base: Tensor, conv: Convolution | None) -> Tensor:
    """a^2 base, at least in the range of float32: squares of float16 numbers overflow and vanish."""
    dtype = _low_precision(x)
    if dtype is None:
        return product(x.square(), base, None, conv)
    if dtype == torch.bfloat16:
        return product(x.square(), base, None, conv).float()
    with torch.autocast(x.device.type, enabled=False):
        return product(x.float().square(), base.float(), None, conv)


def _per_output(values: Tensor, conv: Convolution | None) -> Tensor:
    """One value per output unit, or a single one, in a shape that broadcasts to the output's."""
    return values if conv is None or values.dim() == 0 else values.view(-1, 1, 1)


def _fusible(x: Tensor, conv: Convolution | None) -> bool:
    if torch.compiler.is_compiling() or _low_precision(x) is not None or _transformed():
        return False
    return conv is None or (x.dim() == 4 and not isinstance(conv.padding, str))


# True inside torch.func transforms. No public call tells; without this one the plain path is taken.
_transformed = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


class _Fused(torch.autograd.Function):
    """reparameterize with its gradient. With r = noise / std:

    db/da = mu + a * (scale base) r,   db/dbase = scale a^2 r / 2,   db/dscale = (a^2 base) r / 2
    """

    @staticmethod
    def forward(ctx, x, mean, base, bias, scale, conv):
        std = product(x.square(), base, None, conv)
        if scale is not None:
            std.mul_(scale)
        std.add_(EPS).sqrt_()
        noise = noise_like(std)
        if mean is None:
            out = std * noise if bias is None else torch.addcmul(_per_output(bias, conv), std, noise)
        else:
            out = product(x, mean, bias, conv).addcmul_(std, noise)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(x, mean, base, bias, scale, noise.div_(std))
            ctx.conv = conv
        return out

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():  # create_graph=True
            return _differentiable_backward(ctx, grad)
        x, mean, base, _bias, scale, ratio = ctx.saved_tensors
        need_x, need_mean, need_base, need_bias, need_scale, _ = ctx.needs_input_grad
        grad_std = grad * ratio
        if scale is not None:
            grad_std.mul_(scale)
        grad_x, grad_base = _product_backward(grad_std, x.square(), base, ctx.conv, need_x, need_base or need_scale)
        if need_x:
            grad_x.mul_(x)
        grad_mean = None
        if mean is not None:
            direct, grad_mean = _product_backward(grad, x, mean, ctx.conv, need_x, need_mean)
            grad_x = grad_x.add_(direct) if need_x else None
        grad_scale = _scale_backward(grad_base, base, scale) if need_scale else None
        grad_base = grad_base.mul_(0.5) if need_base else None
        grad_bias = _sum_to_outputs(grad, ctx.conv) if need_bias else None
        return grad_x, grad_mean, grad_base, grad_bias, grad_scale, None


def _scale_backward(grad_base: Tensor, base: Tensor, scale: Tensor) -> Tensor:
    """sum over objects and inputs of (a^2 base) r grad / 2; grad_base is a^2 r grad scale."""
    over_inputs = tuple(range(1, base.dim()))
    total = (grad_base * base).sum(over_inputs) if scale.dim() else torch.dot(grad_base.flatten(), base.flatten())
    return 0.5 * total / scale


def _differentiable_backward(ctx, grad: Tensor) -> tuple:
    """The gradient as a function of the inputs, for second derivatives: the plain path with the same noise."""
    *inputs, ratio = ctx.saved_tensors
    x, mean, base, bias, scale = inputs
    std = deviation(x, base, scale, ctx.conv)
    noise = (ratio * std).detach()
    out = shifted(location(x, mean, bias, ctx.conv), std, noise)
    wanted = [t for t, need in zip(inputs, ctx.needs_input_grad, strict=False) if need]
    grads = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
    return (*(next(grads) if need else None for need in ctx.needs_input_grad[:5]), None)


def _product_backward(
    grad: Tensor, x: Tensor, weight: Tensor, conv: Convolution | None, need_x: bool, need_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    if conv is not None:
        mask = [need_x, need_weight, False]
        stride, padding, dilation, groups = conv
        return torch.ops.aten.convolution_backward(
            grad, x, weight, None, stride, padding, dilation, False, (0, 0), groups, mask
        )[:2]
    rows = grad.reshape(-1, grad.shape[-1])
    return grad @ weight if need_x else None, rows.t() @ x.reshape(-1, x.shape[-1]) if need_weight else None


def _sum_to_outputs(grad: Tensor, conv: Convolution | None) -> Tensor:
    return grad.sum((0, 2, 3)) if conv is not None else grad.reshape(-1, grad.shape[-1]).sum(0)
