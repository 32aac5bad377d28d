"""Compiled noise: normal, independent, in the layout of the tensor, and driven by torch's generator alone."""

import math
import sys

import pytest
import scipy.stats
import torch

from tests.statistics_helper import assert_mean
from varnet.nn import noise
from varnet.nn.layers import Conv2d, Linear
from varnet.nn.noise import SMALL, noise_like, perturb_, shifted

pytest.importorskip("numba", reason="it draws the noise that is tested here")
from varnet.nn import philox

SIZES = [SMALL, SMALL + 1, SMALL + 2, SMALL + 3, 100_003]


def drawn(size: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return noise_like(torch.empty(size))


def test_philox_gives_the_published_words():
    """Salmon et al. 2011, known answers of Philox-4x32-10, seen through the pair of the first two words."""
    words = (0x6627E8D5, 0xE169C58D)  # of counter 0 and key 0
    radius = math.sqrt(-2 * math.log((words[0] + 0.5) / 2**32))
    angle = ((words[1] >> 2) / 2**30 - 0.5) * math.pi / 2
    sign = -1 if words[1] & 1 else 1
    pair = (sign * radius * math.cos(angle), radius * math.sin(angle))
    expected = pair[::-1] if words[1] & 2 else pair
    out = torch.empty(8)
    philox.fill(out.numpy(), philox.key(0))
    assert out[0].item() == pytest.approx(expected[0], rel=1e-5)
    assert out[2].item() == pytest.approx(expected[1], rel=1e-5)


def test_distribution():
    x = drawn(4_000_003)
    assert scipy.stats.kstest(x.numpy()[:1_000_000], "norm").pvalue > 1e-6
    for power in range(1, 7):
        moment = 0 if power % 2 else math.prod(range(1, power, 2))
        assert_mean(x.double() ** power, torch.tensor(float(moment), dtype=torch.double))
    assert x.abs().max() > 4.8, "of four million numbers, some are far out"


@pytest.mark.parametrize("lag", [1, 2, 3, 16, 1_000_000, 2_000_000, 3_000_000])
def test_neighbours_and_quarters_are_independent(lag):
    """Numbers of one counter lie a quarter of the output apart."""
    x = drawn(4_000_000).double()
    a, b = x[:-lag], x[lag:]
    assert_mean(a * b, torch.zeros((), dtype=torch.double))
    assert_mean((a**2 - 1) * (b**2 - 1), torch.zeros((), dtype=torch.double))


def test_draws_and_seeds_are_independent():
    torch.manual_seed(0)
    first, second = (noise_like(torch.empty(1_000_000)).double() for _ in range(2))
    for other in (second, drawn(1_000_000, seed=1).double()):
        assert_mean(first * other, torch.zeros((), dtype=torch.double))


@pytest.mark.parametrize("size", SIZES)
def test_torchs_generator_is_the_only_state(size):
    assert torch.equal(drawn(size, seed=3), drawn(size, seed=3))
    assert not torch.equal(drawn(size, seed=3), drawn(size, seed=4))
    assert drawn(size).isfinite().all() and (drawn(size) != 0).float().mean() > 0.99
    torch.manual_seed(0)
    before = torch.get_rng_state()
    noise_like(torch.empty(size))
    assert not torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("shape", [(9, 7, 11, 13), (9, 1, 31, 29), (100, 101), (3, 40, 50)])
@pytest.mark.parametrize("last", [False, True])
def test_layout_is_kept_and_all_is_written(shape, last):
    x = torch.empty(shape)
    x = x.to(memory_format=torch.channels_last) if last and len(shape) == 4 else x
    out = noise_like(x)
    assert out.shape == x.shape and out.stride() == x.stride()
    assert_mean(out.flatten().square(), torch.ones(()))


@pytest.mark.parametrize("size", SIZES)
def test_one_pass_equals_two(size):
    """What a kernel adds to the noise, with the noise of the same key."""
    mean, variance = torch.randn(size), torch.rand(size) + 0.1
    torch.manual_seed(1)
    expected = mean + variance.sqrt() * noise_like(mean)
    with torch.no_grad():
        torch.manual_seed(1)
        torch.testing.assert_close(shifted(mean, variance), expected)
        out, spread = mean.clone(), variance.clone()
        torch.manual_seed(1)
        ratio = perturb_(out, spread)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(ratio * variance, expected - mean, rtol=1e-4, atol=1e-5)


def test_a_fault_is_not_hidden():
    """Not finite in, not finite out: the trainer looks for it."""
    mean, variance = torch.zeros(SMALL), torch.ones(SMALL)
    mean[5], variance[7], variance[9] = math.nan, math.inf, -1.0
    with torch.no_grad():
        out = shifted(mean, variance)
    assert (~out.isfinite()).nonzero().flatten().tolist() == [5, 7, 9]
    perturb_(mean, variance)
    assert {5, 7, 9} <= set((~mean.isfinite()).nonzero().flatten().tolist())


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (torch.empty(SMALL - 1), "small"),
        (torch.empty(SMALL, dtype=torch.double), "not float32"),
        (torch.empty(SMALL, dtype=torch.bfloat16), "not float32"),
        (torch.empty(2 * SMALL)[::2], "not dense"),
        (torch.empty(64, 128).t(), "not dense in its order"),
        (torch.empty(SMALL, device="meta"), "on another device"),
    ],
)
def test_everything_else_takes_torch(x, why):
    assert noise.compiled_for(x) is None, why
    out = noise_like(x)
    assert (out.shape, out.dtype, out.device) == (x.shape, x.dtype, x.device)


def test_no_folder_to_keep_compiled_code_in(monkeypatch):
    """numba refuses cache=True where it may write nowhere."""
    plain = philox.njit

    def njit(cache: bool = False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return plain(**options)

    monkeypatch.setattr(philox, "njit", njit)
    assert philox.Compiled(lambda x: x + 1)(1) == 2


def test_forward_derivatives_pass_through_large_draws():
    layer, x = Linear(32, 64), torch.randn(128, 32)
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        out = layer(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))
        assert torch.autograd.forward_ad.unpack_dual(out).tangent.isfinite().all()


@pytest.mark.filterwarnings("ignore")
def test_a_traced_network_draws_its_noise():
    layer, x = Linear(32, 64, log_alpha=0.0), torch.randn(128, 32)
    with torch.no_grad():
        traced = torch.jit.trace(layer, x, check_trace=False)
        first, second = traced(x), traced(x)
        mean, variance = layer.moments(x)
    assert not torch.equal(first, second)
    assert_mean((((first - mean) / variance.sqrt()) ** 2).flatten(), torch.ones(()))


def test_without_numba(monkeypatch):
    """Not there, or not fit for the NumPy that is there: numba says both with ImportError."""
    monkeypatch.delitem(sys.modules, "varnet.nn.philox", raising=False)
    monkeypatch.delattr("varnet.nn.philox", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(noise, "_compiled", noise._compiled.__wrapped__)
    torch.manual_seed(0)
    expected = torch.randn(SMALL)
    assert torch.equal(drawn(SMALL), expected)
    layer = Linear(64, 64)
    assert layer(torch.randn(64, 64)).isfinite().all()


@pytest.mark.parametrize("make", [lambda **o: Linear(32, 64, **o), lambda **o: Conv2d(2, 16, 3, **o)])
@pytest.mark.parametrize("param", ["layer", "zero_mean"])
def test_gradient_is_that_of_the_noise_that_was_drawn(make, param):
    """The noise is read off an output; the gradient is that of mean + std * noise by torch."""
    torch.manual_seed(0)
    layer = make(param=param, log_alpha=0.0)
    x = torch.randn(128, *((32,) if isinstance(layer, Linear) else (2, 10, 10)), requires_grad=True)
    out = layer(x)
    weights = torch.randn_like(out)
    fast = torch.autograd.grad((out * weights).sum(), [x, *layer.parameters()])
    mean, variance = layer.moments(x)
    eps = ((out - mean) / variance.sqrt()).detach()
    plain = torch.autograd.grad(((mean + variance.sqrt() * eps) * weights).sum(), [x, *layer.parameters()])
    for a, b in zip(fast, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-3 * b.abs().max().item())
