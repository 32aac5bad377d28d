"""The shared prefix against the model itself: bit for bit with the same noise, and computed once."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varnet import predicting, resample, variational
from varnet.attack.gradient import Pixels
from varnet.evaluation.ensemble import Ensemble
from varnet.evaluation.prefix import Sampler, cut
from varnet.evaluation.quick import quick
from varnet.evaluation.sources import sources
from varnet.nn.layers import Conv2d, Linear
from varnet.nn.networks import build

SAMPLES = 3


def drawn(sampler: Sampler, x: Tensor, samples: int = SAMPLES) -> list[Tensor]:
    torch.manual_seed(5)
    return list(sampler(x, samples))


def assert_like_the_model(model: nn.Module, x: Tensor, mode: str = "sample", shared: bool = True) -> Sampler:
    with torch.no_grad(), predicting(model, mode):
        sampler = Sampler(model)
        fast, again = drawn(sampler, x), drawn(sampler, x)
        torch.manual_seed(5)
        slow = [model(x) for _ in range(SAMPLES)]
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(fast, slow, again, strict=True))
    assert (sampler.cut is not None) == shared
    return sampler


def counted(model: nn.Module, layer: nn.Module, x: Tensor, samples: int) -> int:
    """How often a layer is called after the cut is known."""
    calls = []
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        list(sampler(x, 1))
        hook = layer.register_forward_hook(lambda *_: calls.append(1))
        list(sampler(x, samples))
    hook.remove()
    return len(calls)


class Branch(nn.Module):
    """A residual block: noise in one branch, an input that both share, an addition in place."""

    def __init__(self):
        super().__init__()
        self.stem, self.side = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.noisy = Conv2d(4, 4, 3, padding=1, log_alpha=0.0)
        self.relu, self.head = nn.ReLU(inplace=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.stem(x))
        out = self.noisy(x)
        out += self.side(x)
        return self.head(self.relu(out).mean((2, 3)))


class Spoiling(Branch):
    """Adds noise to the shared value in place, so that a second sample would start from a spoilt one."""

    def forward(self, x: Tensor) -> Tensor:
        shared = self.side(self.stem(x))
        shared.add_(self.noisy(self.stem(x)))
        return self.head(shared.mean((2, 3)))


class ByValue(nn.Module):
    """Control flow that cannot be traced."""

    def __init__(self):
        super().__init__()
        self.layer = Linear(6, 3, log_alpha=0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) if x.sum() > 0 else self.layer(-x)


class OwnNoise(nn.Module):
    """Noise of the model's own; of a fixed shape, so that tracing alone would take it for a constant."""

    def __init__(self, fixed: bool):
        super().__init__()
        self.first, self.last, self.fixed = nn.Linear(6, 5), nn.Linear(5, 3), fixed

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(x + (torch.randn(5) if self.fixed else torch.randn_like(x)))


def dense(**options) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), Linear(8, 5, **options), nn.Tanh(), nn.Linear(5, 3))


@pytest.mark.parametrize("mode", ["sample", "zero_mean", "permuted", "deterministic"])
@pytest.mark.parametrize(
    "options",
    [{"log_alpha": 1.0}, {"param": "zero_mean"}, {"param": "zero_mean", "noise": "bernoulli"}, {"param": "additive"}],
)
def test_every_mode_and_parameterization(options, mode):
    sampler = assert_like_the_model(dense(**options), torch.randn(4, 6), mode)
    assert sampler.stochastic == (mode != "deterministic")


@pytest.mark.parametrize("layers", ["all", ["conv2"], ["dense1"], ["dense2"], "none"])
def test_lenet_from_any_layer(layers):
    model = build("lenet5", (1, 28, 28), 10, layers=layers)
    x = torch.rand(3, 1, 28, 28)
    assert assert_like_the_model(model, x).stochastic == (layers != "none")
    last = model.to(memory_format=torch.channels_last)
    assert_like_the_model(last, x.to(memory_format=torch.channels_last))


def test_what_comes_before_the_noise_is_computed_once():
    model = dense(log_alpha=0.0)
    assert counted(model, model[0], torch.randn(4, 6), 7) == 1
    assert counted(model, model[4], torch.randn(4, 6), 7) == 7
    assert counted(model, model[2], torch.randn(4, 6), 7) == 0, "its moments are computed, once"


def test_a_network_under_attack_and_an_ensemble_of_them():
    members = [build("lenet5", (1, 28, 28), 10, layers=["dense1"]) for _ in range(2)]
    x = 255 * torch.rand(3, 1, 28, 28)
    for model in (Pixels(members[0], (0.1,), (0.3,)), Ensemble([Pixels(m, (0.1,), (0.3,)) for m in members])):
        assert_like_the_model(model, x)
        assert counted(model, members[0].conv1, x, 7) == 1


def test_dropout_before_the_layer_ends_the_prefix():
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 8), Linear(8, 3, log_alpha=-3.0))
    x = torch.randn(4, 6)
    assert_like_the_model(model, x)
    assert counted(model, model[0], x, 5) == 1 and counted(model, model[2], x, 5) == 5
    assert not assert_like_the_model(nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5)), x, "deterministic").stochastic


def test_a_branch():
    model, x = Branch(), torch.rand(3, 1, 8, 8)
    assert_like_the_model(model, x)
    assert counted(model, model.stem, x, 5) == 1 and counted(model, model.side, x, 5) == 1


def test_a_model_that_spoils_what_is_shared_is_run_whole():
    assert_like_the_model(Spoiling(), torch.rand(3, 1, 8, 8), shared=False)


def test_a_model_that_cannot_be_traced_is_run_whole():
    assert_like_the_model(ByValue(), torch.randn(3, 6), shared=False)


class Optional(nn.Module):
    """Arguments that may be left out, and control flow that depends on them."""

    def __init__(self):
        super().__init__()
        self.first, self.layer = nn.Linear(6, 5), Linear(5, 3, log_alpha=0.0)

    def forward(self, x: Tensor, mask: Tensor | None = None, scale: float = 2.0, *, twice: bool = False) -> Tensor:
        x = self.first(x) * scale
        x = x if mask is None else x * mask
        return self.layer(x + x if twice else x)


def test_arguments_that_are_left_out_have_their_defaults():
    model = Optional()
    assert_like_the_model(model, torch.randn(4, 6))
    assert counted(model, model.first, torch.randn(4, 6), 5) == 1


def test_a_model_with_several_outputs_is_run_whole():
    class Two(ByValue):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.layer(x), x

    model, x = Two(), torch.randn(3, 6)
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        (out,) = sampler(x, 1)
    assert sampler.cut is None and len(out) == 2


@pytest.mark.parametrize("fixed", [True, False])
def test_noise_of_the_models_own(fixed):
    sampler = assert_like_the_model(OwnNoise(fixed), torch.randn(3, 6), shared=not fixed)
    assert sampler.stochastic


def test_functional_dropout():
    class Functional(OwnNoise):
        def forward(self, x: Tensor) -> Tensor:
            return self.last(F.dropout(self.first(x), 0.5, training=True))

    model = Functional(True)
    assert assert_like_the_model(model, torch.randn(3, 6)).stochastic
    assert counted(model, model.first, torch.randn(3, 6), 4) == 1


def test_a_converted_resnet_gains():
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.resnet18(num_classes=10)
    variational(model, ["layer4.1", "fc"], log_alpha=-1.0)
    x = torch.rand(2, 3, 32, 32)
    assert_like_the_model(model, x)
    assert counted(model, model.layer4[0].conv1, x, 4) == 1
    assert counted(model, model.layer4[1].bn2, x, 4) == 4


def test_held_weights_follow_resample():
    model, x = dense(log_alpha=1.0), torch.randn(4, 6)
    with torch.no_grad(), predicting(model, "weights"):
        outs = Sampler(model)(x, 2)
        first, expected = next(outs), model(x)
        resample(model)
        second = next(outs)
        assert torch.equal(first, expected) and torch.equal(second, model(x)) and not torch.equal(first, second)


def test_finding_the_cut_draws_nothing_and_changes_nothing():
    model, x = dense(log_alpha=1.0), torch.randn(4, 6)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.get_rng_state()
    with predicting(model, "sample"):
        assert cut(model, x)[0] is not None
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items()) and model.training


@pytest.mark.parametrize("size", [(24, 24), (7, 9), (2, 3)])
def test_pooling_without_positions(size):
    pool, x = nn.MaxPool2d(2), torch.randn(3, 4, *size)
    x[0, 0, 0, 0] = torch.nan
    for image in (x, x.to(memory_format=torch.channels_last)):
        with torch.no_grad():
            torch.testing.assert_close(quick(pool)(image), pool(image), rtol=0, atol=0, equal_nan=True)
    inputs = torch.zeros(1, 1, 2, 2, requires_grad=True)  # a tie: the gradient goes to one of them, as pool's does
    (gradient,) = torch.autograd.grad(quick(pool)(inputs).sum(), inputs)
    torch.testing.assert_close(gradient, torch.autograd.grad(pool(inputs).sum(), inputs)[0])


@pytest.mark.parametrize("options", [{"stride": 1}, {"padding": 1}, {"dilation": 2}, {"ceil_mode": True}])
def test_other_pools_stay(options):
    pool = nn.MaxPool2d(2, **options)
    assert quick(pool) is pool
    assert quick(nn.MaxPool2d(3, 2)).__class__ is nn.MaxPool2d


def test_a_cut_leaves_no_source_behind():
    """torch.fx keeps what it compiles as long as the process lives; a run makes cuts at every evaluation."""
    model, x = variational(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))), torch.rand(4, 4)
    before = [set(cache) for cache in sources()]
    assert len(before) == 2
    for fold in (None, 8):
        found, why = cut(model, x, fold)
        assert found is not None and why is None and found.prefix(x)
    assert [set(cache) for cache in sources()] == before
