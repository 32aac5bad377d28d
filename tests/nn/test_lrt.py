"""The fast path against the textbook's lines (eqs. 4, 39-42): the same outputs and gradients from the same noise."""

import pytest
import torch
from torch import nn

from varnet.nn import lrt, lrt_fast
from varnet.nn.layers import Conv2d, Linear

PARAMS = ("zero_mean", "layer", "neuron", "weight", "additive", "gaussian_dropout")
GEOMETRIES = (
    {},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "bias": False},
    {"groups": 2, "padding": (2, 1)},
    {"padding": "same"},
)


def varied(layer: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return layer


def outcome(layer: nn.Module, forward, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The output, and its gradient by the input and all that the layer learns."""
    torch.manual_seed(1)
    out = forward(x)
    factors = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
    return out, *torch.autograd.grad((out * factors).sum(), [x, *layer.parameters()])


def assert_equal(layer: nn.Module, textbook, x: torch.Tensor, monkeypatch) -> None:
    """Of the written-out gradient, of the plain path, and of the path without a gradient."""
    expected = outcome(layer, textbook, x)
    torch.testing.assert_close(outcome(layer, layer, x), expected, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        torch.manual_seed(1)
        torch.testing.assert_close(layer(x), expected[0], rtol=1e-10, atol=1e-12)
    monkeypatch.setattr(lrt_fast, "_fusible", lambda *_: False)
    torch.testing.assert_close(outcome(layer, layer, x), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("param", PARAMS)
def test_dense(param, bias, monkeypatch):
    layer = varied(Linear(6, 4, bias, param=param, log_alpha=-0.5, dtype=torch.double))
    x = torch.randn(5, 6, dtype=torch.double, requires_grad=True)

    def textbook(x):
        mean, variance, _ = layer.posterior()
        return lrt.linear(x, mean, variance, layer.bias)

    assert_equal(layer, textbook, x, monkeypatch)


@pytest.mark.parametrize("options", GEOMETRIES, ids=str)
@pytest.mark.parametrize("param", PARAMS)
def test_convolution(param, options, monkeypatch):
    layer = varied(Conv2d(4, 6, 3, param=param, log_alpha=-0.5, dtype=torch.double, **options))
    x = torch.randn(2, 4, 7, 6, dtype=torch.double, requires_grad=True)

    def textbook(x):
        mean, variance, _ = layer.posterior()
        return lrt.conv2d(x, mean, variance, layer.bias, **layer.geometry._asdict())

    assert_equal(layer, textbook, x, monkeypatch)
