"""Local reparameterization, fast: the map of varnet.nn.lrt, which has it in two lines (eqs. 4, 39-42).

`reparameterize` draws the output of a layer. `_Fused` is the same with its gradient written out for eager training:
everything after the two products happens in place, one tensor of the size of the output is kept for the backward pass
(noise / std) instead of four, no squared weights are kept, and the factors 2 of the squares cancel. It is used wherever
it applies; torch.compile, torch.func and half precision take the plain path.

The variance of the weights comes as alpha * std^2: alpha is one number for all of them or one for each output unit, or
None for 1. Where alpha is given, std is the standard deviation at alpha = 1, up to its sign: mu for N(mu, alpha mu^2).
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from varnet.nn.lrt import EPS
from varnet.nn.noise import forward_mode, in_memory_order, perturb_, shifted, transformed


class Convolution(NamedTuple):
    """Where the weights of a convolution are applied, in one dimension, two or three."""

    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    groups: int


class Transposed(NamedTuple):
    """The same of a transposed convolution, whose weights have the input's channels first."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int
    dilation: tuple[int, ...]


Geometry = Convolution | Transposed | None  # None means a dense layer
CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}  # by the number of dimensions of what is convolved
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def product(x: Tensor, weight: Tensor, bias: Tensor | None, conv: Geometry) -> Tensor:
    if conv is None:
        return F.linear(x, weight, bias)
    functions = TRANSPOSED if isinstance(conv, Transposed) else CONVOLUTIONS
    return functions[weight.dim() - 2](x, weight, bias, *conv)


class WeightVariance(NamedTuple):
    """The variances of the weights in the memory layout of the products: weights * alpha."""

    weights: Tensor
    alpha: Tensor | None  # one number for each output, or for all; None for 1


def weight_variance(std: Tensor, alpha: Tensor | None, conv: Geometry) -> WeightVariance:
    """Alpha leaves the sum over the inputs of a dense layer, which has more weights than outputs, and stays in a
    convolution, which has fewer."""
    if conv is None:
        return WeightVariance(_variance_in_layout(std, None), alpha)
    return WeightVariance(_variance_in_layout(std, alpha), None)


def variance_without_grad(x: Tensor, weights: Tensor, alpha: Tensor | None, conv: Geometry) -> Tensor:
    """The variance of the output, (a^2 weights) * alpha + EPS, in few passes over the memory."""
    if conv is not None:  # EPS as the bias of the convolution is one pass over the output less
        return product(x.square(), weights, weights.new_full((_outputs(weights, conv),), EPS), conv)
    out = product(x.square(), weights, None, conv)
    return (out if alpha is None else out.mul_(alpha)).add_(EPS)


def output_variance(
    x: Tensor, std: Tensor, alpha: Tensor | None, conv: Geometry, of_bias: Tensor | None = None
) -> Tensor:
    """a^2 (alpha std^2): the variance of the output; that of a random bias is added."""
    variance = _of_product(x, std, alpha, conv)
    return variance if of_bias is None else variance + _per_output(of_bias, conv)


def _of_product(x: Tensor, std: Tensor, alpha: Tensor | None, conv: Geometry) -> Tensor:
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or transformed():
        return _squares(x, variance_of_weights(std, alpha), conv).add(EPS)
    if low_precision(x) is None:
        return variance_without_grad(x, *weight_variance(std, alpha, conv), conv)
    return _squares(x, _variance_in_layout(std, alpha), conv).add(EPS)


def reparameterize(
    x: Tensor, mean: Tensor | None, std: Tensor, bias: Tensor | None, alpha: Tensor | None, conv: Geometry
) -> Tensor:
    """One sample of the output of a layer whose weights have the given mean (None for 0) and variance alpha * std^2."""
    if _fusible(x, conv):
        return _Fused.apply(x, mean, None if std is mean else std, bias, alpha, conv)
    return sample(output_mean(x, mean, bias, conv), output_variance(x, std, alpha, conv), low_precision(x))


def output_mean(x: Tensor, mean: Tensor | None, bias: Tensor | None, conv: Geometry) -> Tensor | None:
    """The mean of the output; None for 0."""
    if mean is not None:
        return product(x, mean, bias, conv)
    return None if bias is None else _per_output(bias, conv)


def sample(mean: Tensor | None, variance: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """mean + sqrt(variance) * noise; in a low precision, large values are held at the largest finite one."""
    if dtype is None:
        return shifted(mean, variance)
    return _held(shifted(None if mean is None else mean.float(), variance), dtype)


def product_of_draw(x: Tensor, weight: Tensor, bias: Tensor | None, conv: Geometry) -> Tensor:
    """The layer with weights that were drawn: in float16 they may overflow, so float32 is used."""
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


def _squares(x: Tensor, variance: Tensor, conv: Geometry) -> Tensor:
    """a^2 sigma^2, at least in the range of float32: squares of float16 numbers overflow and vanish."""
    dtype = low_precision(x)
    if dtype is None:
        return product(x.square(), variance, None, conv)
    if dtype == torch.bfloat16:
        return product(x.square(), variance, None, conv).float()
    with torch.autocast(x.device.type, enabled=False):
        return product(x.float().square(), variance.float(), None, conv)


def _per_output(values: Tensor, conv: Geometry) -> Tensor:
    """One value per output unit, or a single one, in a shape that broadcasts to the output's."""
    return values if conv is None or values.dim() == 0 else values.view(-1, *[1] * len(conv.stride))


def _outputs(weight: Tensor, conv: Convolution | Transposed) -> int:
    return weight.shape[1] * conv.groups if isinstance(conv, Transposed) else weight.shape[0]


def _fusible(x: Tensor, conv: Geometry) -> bool:
    if not torch.is_grad_enabled() or torch.compiler.is_compiling() or transformed() or forward_mode():
        return False
    if low_precision(x) is not None:
        return False
    return conv is None or (x.dim() == len(conv.stride) + 2 and not isinstance(conv.padding, str))


class _Fused(torch.autograd.Function):
    """reparameterize with its gradient. With r = noise / (std of the output) and v = alpha std^2:

    b = a mu + (a^2 v) r,   db/da = mu + a (v r),   db/dstd = std alpha a^2 r,   db/dalpha = std^2 a^2 r / 2

    std=None says that std is the mean itself, as it is for N(mu, alpha mu^2).
    """

    @staticmethod
    def forward(ctx, x, mean, std, bias, alpha, conv):
        variance = variance_without_grad(x, *weight_variance(mean if std is None else std, alpha, conv), conv)
        if mean is not None:
            out = product(x, mean, bias, conv)
        else:
            out = torch.zeros_like(variance)
            out = out if bias is None else out.copy_(_per_output(bias, conv))
        ratio = perturb_(out, variance)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(x, mean, std, bias, alpha, ratio)
            ctx.conv = conv
        return out

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():  # create_graph=True
            return _differentiable_backward(ctx, grad)
        x, mean, std, _bias, alpha, ratio = ctx.saved_tensors
        need_x, need_mean, need_std, need_bias, need_alpha, _ = ctx.needs_input_grad
        same, std = std is None, mean if std is None else std
        need_weight = need_alpha or (need_mean if same else need_std)
        variance, in_output = weight_variance(std, alpha, ctx.conv)
        outer = grad * ratio if in_output is None else (grad * ratio).mul_(in_output)
        grad_x, grad_std = _product_backward(outer, x.square(), variance, ctx.conv, need_x, need_weight)
        grad_std = _times_alpha(grad_std.mul_(std), alpha if in_output is None else None) if need_weight else None
        grad_alpha = _alpha_backward(grad_std, std, alpha) if need_alpha else None
        grad_mean = None
        if mean is not None:
            direct, grad_mean = _product_backward(grad, x, mean, ctx.conv, need_x, need_mean)
            grad_x = direct.addcmul_(grad_x, x) if need_x else None
        elif need_x:
            grad_x.mul_(x)
        if same and need_mean:
            grad_mean.add_(grad_std)
        grad_bias = _sum_to_outputs(grad, ctx.conv) if need_bias else None
        return grad_x, grad_mean, grad_std if need_std else None, grad_bias, grad_alpha, None


def variance_of_weights(std: Tensor, alpha: Tensor | None) -> Tensor:
    return std.square() if alpha is None else std.square() * _per_weight(alpha, std)


def _variance_in_layout(std: Tensor, alpha: Tensor | None) -> Tensor:
    """As _variance, with the strides of std: elementwise operations lose the channels-last strides of weights with one
    input channel, and the two products of the layer would come out in different layouts."""
    return _times_alpha(torch.mul(std, std, out=torch.empty_like(std)), alpha)


def _times_alpha(values: Tensor, alpha: Tensor | None) -> Tensor:
    return values if alpha is None else values.mul_(_per_weight(alpha, values))


def _per_weight(alpha: Tensor, weight: Tensor) -> Tensor:
    return alpha.view(-1, *[1] * (weight.dim() - 1)) if alpha.dim() else alpha


def _alpha_backward(grad_std: Tensor, std: Tensor, alpha: Tensor) -> Tensor:
    """db/dalpha = (db/dstd * std) / (2 alpha), summed over the weights that share the alpha."""
    twice = 2 * alpha.clamp_min(torch.finfo(alpha.dtype).tiny)  # the numerator has the factor alpha
    if alpha.dim():
        return (grad_std * std).reshape(len(std), -1).sum(1) / twice
    if grad_std.stride() != std.stride():  # of an input in another layout than the weights
        return (grad_std * std).sum() / twice
    return torch.dot(_flat(grad_std), _flat(std)) / twice


def _flat(weight: Tensor) -> Tensor:
    """All values in the order of memory, without a copy."""
    return in_memory_order(weight).reshape(-1)


def _differentiable_backward(ctx: Any, grad: Tensor) -> tuple:
    """The gradient as a function of the inputs, for second derivatives: the plain path with the same noise."""
    *saved, ratio = ctx.saved_tensors
    # A view of each: x and std may depend on mean themselves, and only what passes through this layer counts here.
    inputs: list[Any] = [None if tensor is None else tensor.view_as(tensor) for tensor in saved]
    x, mean, std, bias, alpha = inputs
    output_std = output_variance(x, mean if std is None else std, alpha, ctx.conv).sqrt()
    noise = (ratio * output_std).detach()
    mean_of_output = output_mean(x, mean, bias, ctx.conv)
    out = output_std * noise if mean_of_output is None else torch.addcmul(mean_of_output, output_std, noise)
    needs = ctx.needs_input_grad[:5]
    wanted = [tensor for tensor, need in zip(inputs, needs, strict=True) if need]
    grads = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
    return (*(next(grads) if need else None for need in needs), None)


def _product_backward(
    grad: Tensor, x: Tensor, weight: Tensor, conv: Geometry, need_x: bool, need_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    if conv is not None:
        transposed = isinstance(conv, Transposed)
        more = conv.output_padding if isinstance(conv, Transposed) else [0] * len(conv.stride)
        return torch.ops.aten.convolution_backward(
            grad, x, weight, None, conv.stride, conv.padding, conv.dilation, transposed, more, conv.groups,
            [need_x, need_weight, False],
        )[:2]  # fmt: skip
    rows = grad.reshape(-1, grad.shape[-1])
    return grad @ weight if need_x else None, rows.t() @ x.reshape(-1, x.shape[-1]) if need_weight else None


def _sum_to_outputs(grad: Tensor, conv: Geometry) -> Tensor:
    if conv is None:
        return grad.reshape(-1, grad.shape[-1]).sum(0)
    if grad.dim() == 4 and grad.stride(1) == 1 and grad.shape[1] < 64:  # rows this short add up slowly
        return grad.permute(0, 2, 3, 1).sum((0, 1)).sum(0)  # whole image rows first
    return grad.sum([0, *range(2, grad.dim())])
