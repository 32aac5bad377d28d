"""Gradients under create_graph=True, first and second order, against the plain path with the same noise."""

import random

import pytest
import torch
from torch import Tensor, nn

from varnet.nn import lrt_fast
from varnet.nn.layers import Conv2d, Linear
from varnet.nn.modes import MODES

PARAMS = ("zero_mean", "layer", "neuron", "weight", "additive", "gaussian_dropout")
STATES = [MODES[name] for name in ("sample", "zero_mean", "permuted")]
CASES = 60  # 800 of them agree too


def random_layer(pick: random.Random) -> nn.Module:
    """Square, so that it can follow itself."""
    options = {"param": pick.choice(PARAMS), "bias": pick.random() < 0.5, "dtype": torch.double, "log_alpha": -1.0}
    if options["param"] in ("weight", "additive") and pick.random() < 0.3:
        options["threshold"] = 0.0
    if pick.random() < 0.5:
        layer = Linear(5, 5, **options)
    else:
        layer = Conv2d(4, 4, 3, padding=1, groups=pick.choice((1, 2)), **options)
        layer = layer.to(memory_format=torch.channels_last) if pick.random() < 0.3 else layer
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
            parameter.requires_grad_(pick.random() < 0.85)
    return layer


def gradients(layer: nn.Module, x: Tensor, times: int, seed: int) -> list[Tensor]:
    """Of first order, and of a random function of these."""
    torch.manual_seed(seed)
    out = x
    for _ in range(times):
        out = layer(out).tanh()
    wanted = [x, *(p for p in layer.parameters() if p.requires_grad)]
    first = torch.autograd.grad((out * noise(out)).sum(), wanted, create_graph=True, materialize_grads=True)
    value = sum((g * noise(g)).tanh().sum() for g in first)
    second = torch.autograd.grad(value, wanted, allow_unused=True, materialize_grads=True)
    return [*first, *second]


def noise(x: Tensor) -> Tensor:
    """The same in every memory layout."""
    return torch.randn(x.shape, dtype=x.dtype)


@pytest.mark.parametrize("seed", range(CASES))
def test_gradients_with_a_graph(seed, monkeypatch):
    torch.manual_seed(seed)
    pick = random.Random(seed)
    layer = random_layer(pick)
    layer.set_state(pick.choice(STATES))
    x = torch.randn(3, 5) if isinstance(layer, Linear) else torch.randn(3, 4, 4, 5)
    x, times = x.double().requires_grad_(), pick.choice((1, 2))
    fast = gradients(layer, x, times, seed)
    monkeypatch.setattr(lrt_fast, "_fusible", lambda *_: False)
    plain = gradients(layer, x, times, seed)
    assert len(fast) == len(plain)
    for a, b in zip(fast, plain, strict=True):
        assert (a - b).abs().max() <= 1e-12 * b.abs().max().clamp_min(1.0)
