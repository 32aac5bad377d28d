"""Local reparameterization: b = a mu + noise * sqrt(a^2 sigma^2), drawn per object and position (eqs. 4, 39-42).

`reparameterize` is the whole idea in a few lines of torch. `_Fused` is the same map with its gradient written out for
eager training: everything after the two products happens in place, one tensor of the size of the output is kept for
the backward pass (noise / std) instead of four, no squared weights are kept, and the factors 2 of the squares cancel.
It is used wherever it applies; torch.compile, torch.func and half precision take the plain path.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from varnet.nn.noise import forward_mode, in_memory_order, perturb_, shifted, transformed

EPS = 1e-16  # added to the variance under the square root, as in the paper's runs


class Convolution(NamedTuple):
    """Where the weights of a convolution are applied; None in its place means a dense layer."""

    stride: tuple[int, int]
    padding: tuple[int, int] | str
    dilation: tuple[int, int]
    groups: int


def product(x: Tensor, weight: Tensor, bias: Tensor | None, conv: Convolution | None) -> Tensor:
    return F.linear(x, weight, bias) if conv is None else F.conv2d(x, weight, bias, *conv)


class Spread(NamedTuple):
    """What the variance of the output is made of: (a^2 weights) * scale."""

    weights: Tensor
    scale: Tensor | None  # one number for each output, or for all; None for 1


def spread(root: Tensor, scale: Tensor | None, conv: Convolution | None) -> Spread:
    """Of weights with the variance scale * root^2. Alpha leaves the sum over the inputs of a dense layer, which has
    more weights than outputs, and stays in a convolution, which has fewer."""
    if conv is None:
        return Spread(_variance_in_layout(root, None), scale)
    return Spread(_variance_in_layout(root, scale), None)


def output_variance(x: Tensor, weights: Tensor, scale: Tensor | None, conv: Convolution | None) -> Tensor:
    """(a^2 weights) * scale + EPS, without a gradient."""
    if conv is not None:  # EPS as the bias of the convolution is one pass over the output less
        return product(x.square(), weights, weights.new_full(weights.shape[:1], EPS), conv)
    out = product(x.square(), weights, None, conv)
    return (out if scale is None else out.mul_(scale)).add_(EPS)


def dispersion(x: Tensor, root: Tensor, scale: Tensor | None, conv: Convolution | None) -> Tensor:
    """a^2 (scale root^2): the variance of the output."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or transformed():
        return _squares(x, _variance(root, scale), conv).add(EPS)
    if low_precision(x) is None:
        return output_variance(x, *spread(root, scale, conv), conv)
    return _squares(x, _variance_in_layout(root, scale), conv).add(EPS)


def reparameterize(
    x: Tensor, mean: Tensor | None, root: Tensor, bias: Tensor | None, scale: Tensor | None, conv: Convolution | None
) -> Tensor:
    """One sample of the output of a layer whose weights have the given mean (None for 0) and variance scale * root^2,
    with scale None for 1, one number, or one number per output unit."""
    if _fusible(x, conv):
        return _Fused.apply(x, mean, None if root is mean else root, bias, scale, conv)
    return drawn(location(x, mean, bias, conv), dispersion(x, root, scale, conv), low_precision(x))


def location(x: Tensor, mean: Tensor | None, bias: Tensor | None, conv: Convolution | None) -> Tensor | None:
    """The mean of the output; None for 0."""
    if mean is not None:
        return product(x, mean, bias, conv)
    return None if bias is None else _per_output(bias, conv)


def drawn(mean: Tensor | None, variance: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """mean + sqrt(variance) * noise; in a low precision, large values are held at the largest finite one."""
    if dtype is None:
        return shifted(mean, variance)
    return _held(shifted(None if mean is None else mean.float(), variance), dtype)


def drawn_product(x: Tensor, weight: Tensor, bias: Tensor | None, conv: Convolution | None) -> Tensor:
    """product with weights that were drawn: in float16 they may overflow, so float32 is used."""
    if low_precision(x) != torch.float16:
        return product(x, weight, bias, conv)
    with torch.autocast(x.device.type, enabled=False):
        out = product(x.float(), weight.float(), None if bias is None else bias.float(), conv)
    return _held(out, torch.float16)


def _held(values: Tensor, dtype: torch.dtype) -> Tensor:
    limit = torch.finfo(dtype).max
    return values.clamp(-limit, limit).to(dtype)


def low_precision(x: Tensor) -> torch.dtype | None:
    """The precision in which products run if it is half of one kind or the other."""
    kind = x.device.type
    cast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind) and x.dtype != torch.float64
    dtype = torch.get_autocast_dtype(kind) if cast else x.dtype
    return dtype if dtype in (torch.float16, torch.bfloat16) else None


def _squares(x: Tensor, variance: Tensor, conv: Convolution | None) -> Tensor:
    """a^2 sigma^2, at least in the range of float32: squares of float16 numbers overflow and vanish."""
    dtype = low_precision(x)
    if dtype is None:
        return product(x.square(), variance, None, conv)
    if dtype == torch.bfloat16:
        return product(x.square(), variance, None, conv).float()
    with torch.autocast(x.device.type, enabled=False):
        return product(x.float().square(), variance.float(), None, conv)


def _per_output(values: Tensor, conv: Convolution | None) -> Tensor:
    """One value per output unit, or a single one, in a shape that broadcasts to the output's."""
    return values if conv is None or values.dim() == 0 else values.view(-1, 1, 1)


def _fusible(x: Tensor, conv: Convolution | None) -> bool:
    if not torch.is_grad_enabled() or torch.compiler.is_compiling() or transformed() or forward_mode():
        return False
    if low_precision(x) is not None:
        return False
    return conv is None or (x.dim() == 4 and not isinstance(conv.padding, str))


class _Fused(torch.autograd.Function):
    """reparameterize with its gradient. With r = noise / std and v = scale root^2:

    b = a mu + (a^2 v) r,   db/da = mu + a (v r),   db/droot = root scale a^2 r,   db/dscale = root^2 a^2 r / 2

    root=None says that root is the mean itself, as it is for N(mu, alpha mu^2).
    """

    @staticmethod
    def forward(ctx, x, mean, root, bias, scale, conv):
        variance = output_variance(x, *spread(mean if root is None else root, scale, conv), conv)
        if mean is not None:
            out = product(x, mean, bias, conv)
        else:
            out = torch.zeros_like(variance)
            out = out if bias is None else out.copy_(_per_output(bias, conv))
        ratio = perturb_(out, variance)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(x, mean, root, bias, scale, ratio)
            ctx.conv = conv
        return out

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():  # create_graph=True
            return _differentiable_backward(ctx, grad)
        x, mean, root, _bias, scale, ratio = ctx.saved_tensors
        need_x, need_mean, need_root, need_bias, need_scale, _ = ctx.needs_input_grad
        shared, root = root is None, mean if root is None else root
        need_weight = need_scale or (need_mean if shared else need_root)
        variance, in_output = spread(root, scale, ctx.conv)
        outer = grad * ratio if in_output is None else (grad * ratio).mul_(in_output)
        grad_x, grad_root = _product_backward(outer, x.square(), variance, ctx.conv, need_x, need_weight)
        grad_root = _scaled(grad_root.mul_(root), scale if in_output is None else None) if need_weight else None
        grad_scale = _scale_backward(grad_root, root, scale) if need_scale else None
        grad_mean = None
        if mean is not None:
            direct, grad_mean = _product_backward(grad, x, mean, ctx.conv, need_x, need_mean)
            grad_x = direct.addcmul_(grad_x, x) if need_x else None
        elif need_x:
            grad_x.mul_(x)
        if shared and need_mean:
            grad_mean.add_(grad_root)
        grad_bias = _sum_to_outputs(grad, ctx.conv) if need_bias else None
        return grad_x, grad_mean, grad_root if need_root else None, grad_bias, grad_scale, None


def _variance(root: Tensor, scale: Tensor | None) -> Tensor:
    return root.square() if scale is None else root.square() * _per_weight(scale, root)


def _variance_in_layout(root: Tensor, scale: Tensor | None) -> Tensor:
    """As _variance, with the strides of root: elementwise operations lose the channels-last strides of weights with one
    input channel, and the two products of the layer would come out in different layouts."""
    return _scaled(torch.mul(root, root, out=torch.empty_like(root)), scale)


def _scaled(values: Tensor, scale: Tensor | None) -> Tensor:
    return values if scale is None else values.mul_(_per_weight(scale, values))


def _per_weight(scale: Tensor, weight: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (weight.dim() - 1)) if scale.dim() else scale


def _scale_backward(grad_root: Tensor, root: Tensor, scale: Tensor) -> Tensor:
    """db/dscale = (db/droot * root) / (2 scale), summed over the weights that share the scale."""
    twice = 2 * scale.clamp_min(torch.finfo(scale.dtype).tiny)  # the numerator has the factor scale
    if scale.dim():
        return (grad_root * root).reshape(len(root), -1).sum(1) / twice
    if grad_root.stride() != root.stride():  # of an input in another layout than the weights
        return (grad_root * root).sum() / twice
    return torch.dot(_flat(grad_root), _flat(root)) / twice


def _flat(weight: Tensor) -> Tensor:
    """All values in the order of memory, without a copy."""
    return in_memory_order(weight).reshape(-1)


def _differentiable_backward(ctx, grad: Tensor) -> tuple:
    """The gradient as a function of the inputs, for second derivatives: the plain path with the same noise."""
    *saved, ratio = ctx.saved_tensors
    # A view of each: x and root may depend on mean themselves, and only what passes through this layer counts here.
    inputs = [None if tensor is None else tensor.view_as(tensor) for tensor in saved]
    x, mean, root, bias, scale = inputs
    std = dispersion(x, mean if root is None else root, scale, ctx.conv).sqrt()
    noise = (ratio * std).detach()
    centre = location(x, mean, bias, ctx.conv)
    out = std * noise if centre is None else torch.addcmul(centre, std, noise)
    needs = ctx.needs_input_grad[:5]
    wanted = [tensor for tensor, need in zip(inputs, needs, strict=True) if need]
    grads = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
    return (*(next(grads) if need else None for need in needs), None)


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
    if conv is None:
        return grad.reshape(-1, grad.shape[-1]).sum(0)
    if grad.stride(1) == 1 and grad.shape[1] < 64:  # rows this short add up slowly: whole image rows first
        return grad.permute(0, 2, 3, 1).sum((0, 1)).sum(0)
    return grad.sum((0, 2, 3))
