"""Models of which nothing may be shared between samples: they are run whole, and `why` says what stands in the way."""

import pytest
import torch
from torch import Tensor, nn

from tests.evaluation.straight_through import Round
from varnet import predicting, resample, variational
from varnet.attack.gradient import Attack, run
from varnet.evaluation.prefix import Sampler
from varnet.nn.layers import Linear


def noisy(**options) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), Linear(8, 3, **({"log_alpha": 0.0} | options)))


class Around(nn.Module):
    """A network with something before it."""

    def __init__(self, model: nn.Module | None = None):
        super().__init__()
        self.model = noisy() if model is None else model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(self.before(x))

    def before(self, x: Tensor) -> Tensor:
        return x


class StraightThrough(Around):
    def before(self, x: Tensor) -> Tensor:
        return Round.apply(x)


class StraightThroughByNoGrad(Around):
    def before(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            change = x.round() - x
        return x + change


class Hidden(Around):
    """A gradient that torch.fx does not see to be another one: it is in a hook of a tensor."""

    def before(self, x: Tensor) -> Tensor:
        x = x * 1
        if not isinstance(x, torch.fx.Proxy) and x.requires_grad:
            x.register_hook(lambda grad: 2 * grad)
        return x


@pytest.mark.parametrize("kind", [StraightThrough, StraightThroughByNoGrad, Hidden])
def test_gradients_are_those_of_the_model(kind):
    model, x = kind(), 3 * torch.randn(4, 6)

    def gradient(draw) -> Tensor:
        given = x.clone().requires_grad_()
        torch.manual_seed(2)
        (found,) = torch.autograd.grad(sum(draw(given)).square().sum(), given)
        return found

    with predicting(model, "sample"):
        sampler = Sampler(model)
        torch.testing.assert_close(gradient(lambda x: sampler(x, 3)), gradient(lambda x: [model(x) for _ in range(3)]))
        assert sampler.cut is None and "gradient" in sampler.why
        with torch.no_grad():  # values alone are the same
            list(sampler(x, 1))
        assert sampler.cut is not None and sampler.why is None


def test_an_attack_sees_a_straight_through_gradient():
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    model, x = StraightThrough(network), torch.full((3, 1, 2, 2), 100.0)
    moved = run(model, x, torch.zeros(3).long(), Attack(iterations=3, samples=1)).images[-1]
    assert ((moved - x).abs() == 1.5).all()


@pytest.mark.parametrize("kind", [StraightThrough, StraightThroughByNoGrad])
def test_a_dead_unit_hides_no_gradient(kind):
    """On the two rows of the trial both gradients are 0: how it is computed tells them apart."""
    model = kind(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
    x = torch.cat([torch.full((2, 6), 9.0), torch.full((2, 6), -9.0)])
    nn.init.constant_(model.model[0].weight, -1.0)
    with predicting(model, "sample"):
        sampler, given = Sampler(model), x.clone().requires_grad_()
        (found,) = torch.autograd.grad(next(iter(sampler(given, 1))).sum(), given)
        assert found[2:].abs().min() > 0 and sampler.cut is None


class ReadsWeights(Around):
    """Uses the weights of a layer in its own way."""

    def forward(self, x: Tensor) -> Tensor:
        layer = self.model[2]
        return nn.functional.linear(self.model[1](self.model[0](x)), layer.weight, layer.bias)


@pytest.mark.parametrize("options", [{}, {"param": "zero_mean"}, {"param": "additive"}])
def test_weights_that_a_model_reads_are_drawn_anew(options):
    model, x = ReadsWeights(noisy(**options)), torch.randn(4, 6)
    with torch.no_grad(), predicting(model, "weights"):
        sampler = Sampler(model)
        outs = sampler(x, 2)
        assert torch.equal(next(outs), first := model(x))
        resample(model)
        assert torch.equal(next(outs), second := model(x)) and not torch.equal(first, second)
        assert "reads the weights" in sampler.why


class EncoderOnly(nn.Module):
    """A layer that is one operation for torch.fx, with variational layers inside of it."""

    def __init__(self, layers: str, dropout: float = 0.0):
        super().__init__()
        self.embed, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout, batch_first=True)
        variational(self.encoder, layers, log_alpha=1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


@pytest.mark.parametrize("layers", ["linear1", "self_attn.out_proj", "all"])
def test_weights_held_inside_of_a_layer_are_drawn_anew(layers):
    model, x = EncoderOnly(layers), torch.randn(4, 5, 6)
    with torch.no_grad(), predicting(model, "weights"):
        sampler = Sampler(model)
        outs = sampler(x, 2)
        assert torch.equal(next(outs), first := model(x))
        resample(model)
        assert torch.equal(next(outs), second := model(x)) and not torch.equal(first, second)
        assert sampler.cut is not None, "what comes before it can be shared"


class InPlaceAfterNoise(nn.Module):
    """Changes what all samples share, where the noise is above a bound."""

    def __init__(self, bound: float):
        super().__init__()
        self.first, self.layer, self.bound = nn.Linear(6, 6), Linear(6, 6, log_alpha=0.0), bound

    def forward(self, x: Tensor) -> Tensor:
        shared, drawn = self.first(x), self.layer(x)
        shared.masked_fill_(drawn > self.bound, 0.0)  # above 50 it changes nothing on the rows of the trial
        return shared + drawn


class InPlaceBeforeItIsRead(nn.Module):
    """What a sample reads is changed in place after it was read, by something without noise."""

    def __init__(self):
        super().__init__()
        self.first, self.drop = nn.Linear(6, 6), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        shared = self.first(x)
        drawn = self.drop(shared)
        shared.clamp_(max=50.0)  # on the rows of the trial it changes nothing
        return shared + drawn


@pytest.mark.parametrize("model", [InPlaceAfterNoise(0.0), InPlaceAfterNoise(50.0), InPlaceBeforeItIsRead()])
def test_changes_in_place_are_seen_whatever_the_values(model):
    x = torch.cat([torch.randn(2, 6), 1000 * torch.randn(2, 6)])
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        torch.manual_seed(1)
        fast = list(sampler(x, 3))
        torch.manual_seed(1)
        slow = [model(x) for _ in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(fast, slow, strict=True))
    assert "in place" in sampler.why


def test_an_input_that_a_model_changes_is_left_alone_by_the_trial():
    class Scales(Around):
        def before(self, x: Tensor) -> Tensor:
            return x.mul_(2)

    model, x = Scales(), torch.ones(4, 6)
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        list(sampler(x, 2))
    assert torch.equal(x, torch.full((4, 6), 4.0)) and "its input in place" in sampler.why


@pytest.mark.parametrize("where", ["", "model", "model.0", "model.2"])
@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_are_called_for_every_sample(kind, where):
    model, x, calls = Around(), torch.randn(4, 6), []
    getattr(model.get_submodule(where), kind)(lambda *_: calls.append(1))
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        list(sampler(x, 1))
        before = len(calls)
        list(sampler(x, 5))
    assert len(calls) - before == 5 and "hooks" in sampler.why


class Counting(Around):
    """Keeps something of every call: a buffer, a number, a tensor or a list."""

    def __init__(self, what: str):
        super().__init__()
        self.what, self.number, self.last, self.seen = what, 0, None, []
        self.register_buffer("calls", torch.zeros(()))

    def before(self, x: Tensor) -> Tensor:
        if self.what == "calls":
            self.calls += 1
        elif self.what == "number":
            self.number += 1
        elif self.what == "last":
            self.last = x * 2
        else:
            self.seen.append(x * 2)
        return x


@pytest.mark.parametrize("what", ["calls", "number", "last", "seen"])
def test_what_a_model_keeps_of_its_calls_is_that_of_its_calls(what):
    model, x = Counting(what), torch.randn(4, 6)
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        list(sampler(x, 5))
    assert what in sampler.why
    kept = {"calls": float(model.calls), "number": model.number, "last": model.last, "seen": len(model.seen)}
    assert torch.equal(model.last, 2 * x) if what == "last" else kept[what] == 5


def test_a_trace_leaves_no_constant_in_the_model():
    class Shifted(Around):
        def before(self, x: Tensor) -> Tensor:
            return x + torch.tensor([1.0, 2, 3, 4, 5, 6])

    model = Shifted()
    before = set(vars(model))
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        list(sampler(torch.randn(4, 6), 2))
    assert sampler.cut is not None and set(vars(model)) == before


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["draw", "moments", "moments2", "draw2", "draw3", "value1"])
def test_a_module_may_have_any_name(name, first):
    """Before the noise or behind it."""

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module(name, nn.Linear(6, 6) if first else nn.Linear(3, 3))
            self.model = noisy()

        def forward(self, x: Tensor) -> Tensor:
            own = getattr(self, name)
            return self.model(own(x)) if first else own(self.model(x))

    model, x = Named(), torch.randn(4, 6)
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        torch.manual_seed(1)
        fast = list(sampler(x, 3))
        torch.manual_seed(1)
        assert all(torch.equal(a, model(x)) for a in fast)
    assert sampler.cut is not None, sampler.why


def test_a_model_that_needs_more_rows_than_the_trial_has():
    class Pairs(Around):
        def before(self, x: Tensor) -> Tensor:
            return x.view(-1, 4, 6).mean(1)

    model, x = Pairs(), torch.randn(8, 6)
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        assert len(next(iter(sampler(x, 1)))) == 2 and "fails on 2 rows" in sampler.why


def test_an_empty_batch_tells_nothing_about_the_next():
    model = noisy()
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        assert [len(out) for out in sampler(torch.zeros(0, 6), 2)] == [0, 0]
        one, two = sampler(torch.randn(4, 6), 2)
    assert sampler.cut is not None and not torch.equal(one, two)


def test_in_inference_mode():
    model, x = noisy(), torch.randn(4, 6)
    with torch.inference_mode(), predicting(model, "sample"):
        sampler = Sampler(model)
        torch.manual_seed(1)
        fast = list(sampler(x * 1, 3))
        torch.manual_seed(1)
        assert all(torch.equal(a, model(x)) for a in fast) and sampler.cut is not None
