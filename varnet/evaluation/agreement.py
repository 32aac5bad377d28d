"""Trials of a cut against the model itself on a few rows: the same outputs and gradients with the same noise."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from varnet.evaluation.probing import RunWhole
from varnet.evaluation.untouched import Generators, holding
from varnet.nn.layers import held_in
from varnet.nn.modes import resample

TRIALS = 2  # samples, between which held weights are drawn anew
Draw = Callable[[], Tensor]  # a sample of the output


def check_agreement(prefix: nn.Module, suffix: nn.Module | None, model: nn.Module, x: Tensor) -> None:
    """Refuse a cut that draws other outputs than the model does; where gradients are on, one that has others."""
    x = x.clone().requires_grad_(torch.is_grad_enabled() and x.is_floating_point())

    def from_cut() -> Draw:
        values = prefix(x)
        return lambda: values[0] if suffix is None else suffix(*values)

    fast, slow = (_trials(sampler, model, x) for sampler in (from_cut, lambda: lambda: model(x)))
    if not all(isinstance(b, Tensor) and _close(a, b, 1e-5) for a, b in zip(fast, slow, strict=True)):
        raise RunWhole("its samples differ from those of its graph: something is not computed where torch.fx sees it")
    if x.requires_grad:
        ours, theirs = _gradient(fast, x), _gradient(slow, x)
        if not _close(ours, theirs, 1e-3 * float(theirs.nan_to_num(0, 0, 0).abs().max())):
            raise RunWhole("its gradient differs from that of its graph: a part of it has a gradient of its own")


def _trials(sampler: Callable[[], Draw], model: nn.Module, x: Tensor) -> list[Tensor]:
    """Draw samples that begin with the same noise whenever this is called."""
    generators = Generators(x)
    with holding(model):
        draw, found = sampler(), []
        for _ in range(TRIALS):
            found.append(draw())
            if any(layer.holds for layer in held_in(model).values()):
                resample(model)
    generators.restore()
    return found


def _gradient(outs: list[Tensor], x: Tensor) -> Tensor:
    """Gradient at x of a sum of all outputs with unequal weights."""
    parts = [_weighted(out) for out in outs if out.requires_grad]
    found = torch.autograd.grad(sum(parts), x, allow_unused=True)[0] if parts else None
    return torch.zeros_like(x) if found is None else found


def _weighted(out: Tensor) -> Tensor:
    return (out.flatten() * torch.arange(1.0, out.numel() + 1, device=out.device).cos()).sum()


def _close(a: Tensor, b: Tensor, atol: float) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=atol, equal_nan=True)
