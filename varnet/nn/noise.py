"""Standard normal noise in the memory layout of a tensor, from torch's generators or, on a CPU, from varnet.nn.philox.

Large draws in float32 on a CPU are compiled: one number of torch's generator is their key, so that seeds, checkpoints
and forked generators work as for torch.randn. Everything else (other devices and types, small tensors, torch.compile,
torch.func, a machine without numba) takes torch.randn.
"""

import functools
import math
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

NOISES = ("gaussian", "bernoulli", "uniform")  # the families of section 3.3
SMALL = 4096  # values below which calling compiled code costs more than it saves


@functools.cache
def _compiled() -> ModuleType | None:
    """varnet.nn.philox, imported when it is first needed: numba takes half a second to load."""
    try:
        from varnet.nn import philox
    except ImportError:  # no numba, or one that does not go with the NumPy that is installed
        return None
    return philox


def compiled_for(x: Tensor) -> ModuleType | None:
    """The compiled kernels, where they can draw noise for x. Nothing that records operations sees what they do."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or forward_mode():
        return None
    if x.numel() < SMALL or x.dtype != torch.float32 or x.device.type != "cpu":
        return None
    plain = type(x) in (Tensor, torch.nn.Parameter) and not transformed() and in_memory_order(x).is_contiguous()
    return _compiled() if plain else None


# True inside torch.func transforms. No public call tells; without this one the plain path is taken.
transformed = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


def forward_mode() -> bool:
    return torch.autograd.forward_ad._current_level >= 0


def in_memory_order(x: Tensor) -> Tensor:
    """A view of x that is contiguous if x is contiguous or channels-last."""
    return x.permute(0, 2, 3, 1) if x.dim() == 4 and x.stride(1) == 1 and x.shape[1] > 1 else x


def values(x: Tensor) -> np.ndarray:
    """The numbers of a tensor of compiled_for in the order of memory, as numpy sees them; no copy."""
    return in_memory_order(x.detach()).view(-1).numpy()


def new_key() -> int:
    """From torch's generator of the CPU."""
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_().item())


def noise_like(x: Tensor) -> Tensor:
    """Standard normal noise in the layout of x. torch draws channels-last slowly: flat and permuted instead."""
    if philox := compiled_for(x):
        out = torch.empty_like(x, requires_grad=False)
        philox.fill(values(out), philox.key(new_key()))
        return out
    ordered = in_memory_order(x)
    noise = torch.randn(ordered.shape, dtype=x.dtype, device=x.device)
    return noise if ordered is x else noise.permute(0, 3, 1, 2)


def unit_noise(family: str, like: Tensor) -> Tensor:
    """Independent noise of mean 0 and variance 1 in the shape of `like`."""
    if family == "gaussian":
        return noise_like(like)
    if family == "bernoulli":
        return torch.randint_like(like, 2).mul(2).sub(1)
    return torch.rand_like(like).mul(2).sub(1).mul(math.sqrt(3))


def shifted(mean: Tensor | None, variance: Tensor) -> Tensor:
    """mean + sqrt(variance) * noise, with None for a mean of 0."""
    philox = None
    if mean is not None and _alike(mean, variance) and not torch.is_grad_enabled():
        philox = compiled_for(variance)
    if philox is None or mean is None:
        std = variance.sqrt()
        noise = noise_like(std)
        return std * noise if mean is None else torch.addcmul(mean, std, noise)
    out = torch.empty_like(variance)
    philox.shift(values(out), values(mean), values(variance), philox.key(new_key()))
    return out


def perturb_(out: Tensor, variance: Tensor) -> Tensor:
    """out += sqrt(variance) * noise; returns noise / sqrt(variance), which may be in the memory of the variance."""
    philox = compiled_for(variance) if _alike(out, variance) else None
    if philox is None:
        ratio = noise_like(variance).mul_(variance.rsqrt())
        out.addcmul_(variance, ratio)
        return ratio
    philox.perturb(values(out), values(variance), philox.key(new_key()))
    return variance


def _alike(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype
