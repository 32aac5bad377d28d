"""Attacks: closed forms on linear networks, exact steps and projections, and nothing of the network touched."""

import copy
import math

import pytest
import torch
from torch import nn

from tests.statistics_helper import assert_mean
from varnet.attack import gradient as attacks
from varnet.attack.gradient import Attack, Pixels, random_targets, succeeded
from varnet.data import Loader
from varnet.errors import ConfigError
from varnet.evaluation.metrics import average_probs
from varnet.evaluation.predictions import isolated
from varnet.nn import networks as models
from varnet.nn.layers import layers_of
from varnet.nn.modes import predicting

SHAPE = (1, 4, 4)


def linear(classes: int = 2) -> nn.Module:
    return Pixels(nn.Sequential(nn.Flatten(), nn.Linear(16, classes)))


def images(count: int = 5, low: int = 0, high: int = 256) -> torch.Tensor:
    return torch.randint(low, high, (count, *SHAPE)).float()


def variance_network() -> nn.Sequential:
    return models.build("lenet300", SHAPE, 3, param="zero_mean", layers=["dense1"], width=0.05, dropout=True)


def direction(model: nn.Module, aim: torch.Tensor) -> torch.Tensor:
    """Uphill for a class of a linear network with two: the same everywhere."""
    weight = model.model[1].weight.detach()
    return (weight[aim] - weight[1 - aim]).view(-1, *SHAPE)


@pytest.mark.parametrize("targeted", [True, False])
@pytest.mark.parametrize("iterations", [0, 1, 7, 300])
def test_fast_sign_on_a_linear_network(targeted, iterations):
    model, x, aim = linear(), images(), torch.tensor([0, 1, 1, 0, 1])
    found = attacks.run(model, x, aim, Attack(iterations=iterations, targeted=targeted))
    sign = direction(model, aim).sign() * (1 if targeted else -1)
    assert torch.equal(found.images[-1], (x + 0.5 * iterations * sign).clamp(0, 255))
    assert found.log_probs.shape == (iterations + 1, 5, 2)
    torch.testing.assert_close(found.log_probs[0], model(x).log_softmax(1))
    torch.testing.assert_close(found.log_probs[-1], model(found.images[-1]).log_softmax(1))


@pytest.mark.parametrize("targeted", [True, False])
@pytest.mark.parametrize("gap", [-300.0, -20.0, 20.0, 300.0])
def test_a_certain_network_is_attacked_as_any_other(gap, targeted):
    """In float32 the probability of a class is 1 from a gap of 17 on, and its logarithm has no gradient."""
    model, x, aim = linear(), images(1), torch.tensor([0])
    model.model[1].bias.data = torch.tensor([gap, 0.0])
    found = attacks.run(model, x, aim, Attack(iterations=3, targeted=targeted))
    sign = direction(model, aim).sign() * (1 if targeted else -1)
    assert torch.equal(found.images[-1], (x + 1.5 * sign).clamp(0, 255))


def test_a_network_of_nan_is_refused():
    model = linear()
    model.model[1].bias.data[0] = torch.nan
    with pytest.raises(ValueError, match="the network predicts NaN"):
        attacks.run(model, images(2), torch.tensor([0, 1]), Attack(iterations=1))


def test_a_network_of_float64():
    model, x, aim = linear(), images(2), torch.tensor([0, 1])
    wide = Pixels(copy.deepcopy(model.model).double())
    found = [attacks.run(m, x, aim, Attack(iterations=3)).images[-1] for m in (model, wide)]
    assert torch.equal(*found)


@pytest.mark.parametrize("iterations", [1, 2, 3, 9])
def test_pgd_within_the_largest_change(iterations):
    model, x, aim = linear(), images(), torch.tensor([0, 1, 1, 0, 1])
    attack = Attack("pgd_linf", iterations, step=2.0, epsilon=5.0)
    found = attacks.run(model, x, aim, attack, keep=True).images
    assert torch.equal(found[-1], (x + min(2.0 * iterations, 5.0) * direction(model, aim).sign()).clamp(0, 255))
    assert len(found) == iterations + 1 and torch.equal(found[0], x)


@pytest.mark.parametrize("iterations", [1, 4, 12])
def test_pgd_within_a_euclidean_ball(iterations):
    model, x, aim = linear(), images(low=100, high=150), torch.tensor([0, 1, 1, 0, 1])
    found = attacks.run(model, x, aim, Attack("pgd_l2", iterations, step=3.0, epsilon=20.0)).images[-1]
    way = direction(model, aim)
    way = way / way.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    torch.testing.assert_close(found, x + min(3.0 * iterations, 20.0) * way)


@pytest.mark.parametrize("gap", [1.0, 50.0, 70.0])
def test_the_euclidean_step_is_as_long_where_the_gradient_is_small(gap):
    """Squares of a gradient of 1e-23 and less are 0 in float32; denormal numbers may be 0 too (varnet.device)."""
    model, x = linear(), images(1, 100, 150)
    model.model[1].bias.data = torch.tensor([gap, 0.0])
    model.model[1].weight.data /= 100
    attack = Attack("pgd_l2", 1, step=2.0, epsilon=100.0, targeted=False)
    moved = attacks.run(model, x, torch.tensor([0]), attack).images[-1] - x
    assert float(moved.norm()) == pytest.approx(2.0, rel=1e-4)
    model.model[1].weight.data.zero_()
    assert torch.equal(attacks.run(model, x, torch.tensor([0]), attack).images[-1], x)


@pytest.mark.parametrize("method", ["pgd_linf", "pgd_l2"])
def test_a_random_start_stays_within_bound_and_pixels(method):
    x = images(50)
    attack = Attack(method, 0, epsilon=30.0, random_start=True)
    found = attacks.run(linear(), x, torch.zeros(50).long(), attack).images[-1]
    change = (found - x).flatten(1)
    size = change.abs().amax(1) if method == "pgd_linf" else change.norm(dim=1)
    assert (size <= 30 * (1 + 1e-6)).all() and (size > 0).all() and found.min() >= 0 and found.max() <= 255


def test_every_step_is_the_gradient_of_the_averaged_prediction_with_fresh_noise():
    model = Pixels(variance_network())
    x, aim = images(), torch.tensor([0, 1, 2, 0, 1])
    attack = Attack(iterations=3, samples=4, seed=7)
    found = attacks.run(model, x, aim, attack, keep=True)
    now = x
    with isolated(7), predicting(model, "sample"):
        for i in range(4):  # the plain way: the whole network for every sample
            now = now.detach().requires_grad_()
            log_probs = average_probs([model(now).log_softmax(1) for _ in range(4)])
            torch.testing.assert_close(found.log_probs[i], log_probs.detach())
            assert torch.equal(found.images[i], now.detach())
            (gradient,) = torch.autograd.grad(log_probs[torch.arange(5), aim].sum(), now)
            now = (now.detach() + 0.5 * gradient.sign()).clamp(0, 255)
    assert (found.log_probs[0] - found.log_probs[1]).abs().max() > 1e-3


def test_eot_changes_the_steps_and_not_the_verdict():
    model, x, aim = Pixels(variance_network()), images(), torch.tensor([0, 1, 2, 0, 1])
    few = attacks.run(model, x, aim, Attack(iterations=1, samples=2))
    many = attacks.run(model, x, aim, Attack(iterations=1, samples=64, judged=2))
    assert torch.equal(few.log_probs[0], many.log_probs[0]) and not torch.equal(few.images[-1], many.images[-1])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("method", attacks.METHODS)
def test_a_caller_without_gradients(method, mode):
    model, x, aim = Pixels(variance_network()), images(), torch.tensor([0, 1, 2, 0, 1])
    attack = Attack(method, 3, epsilon=None if method == "fast_sign" else 8.0)
    wanted = attacks.run(model, x, aim, attack)
    with mode():
        found = attacks.run(model, x.clone(), aim.clone(), attack)
    assert torch.equal(found.images[-1], wanted.images[-1]) and not torch.equal(found.images[-1], x)


def test_nothing_of_the_network_changes():
    net = variance_network().train()
    net.dense2.eval()
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    model, x = Pixels(net), images()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    states = [layer.state for layer in layers_of(net).values()]
    random, given = torch.get_rng_state(), x.clone()
    with torch.no_grad():  # an attack takes its gradients also here
        found = attacks.run(model, x, torch.zeros(5).long(), Attack(iterations=3, samples=2))
    assert not torch.equal(found.images[-1], x)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(p.requires_grad and torch.equal(p.grad, torch.ones_like(p)) for p in net.parameters())
    assert [module.training for module in net.modules()] == modes
    assert [layer.state for layer in layers_of(net).values()] == states
    assert torch.equal(torch.get_rng_state(), random) and torch.equal(x, given) and not x.requires_grad
    assert not found.images[-1].requires_grad and not found.log_probs.requires_grad


def test_pixels_are_normalised_as_the_loader_does():
    raw = torch.randint(0, 256, (6, 3, 4, 4), dtype=torch.uint8)
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    (x, _) = next(iter(Loader(raw, torch.zeros(6).long(), mean=mean, std=std)))
    torch.testing.assert_close(Pixels(nn.Identity(), mean, std)(raw.float()), x)
    (x, _) = next(iter(Loader(raw, torch.zeros(6).long())))
    torch.testing.assert_close(Pixels(nn.Identity())(raw.float()), x)


def test_success():
    probs = torch.tensor(
        [[[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]], [[0.2, 0.5, 0.3], [0.1, 0.2, 0.7]]]
    )  # (2 iterations, 2, 3)
    assert succeeded(probs.log(), torch.tensor([1, 0])).tolist() == [[False, False], [True, False]]
    assert succeeded(probs.log(), torch.tensor([0, 1]), targeted=False).tolist() == [[False, False], [True, True]]


def test_random_targets():
    y = torch.arange(5).repeat(2000)
    aim = random_targets(y, 5, seed=1)
    assert (aim != y).all() and aim.min() == 0 and aim.max() == 4
    assert torch.equal(aim, random_targets(y, 5, seed=1)) and not torch.equal(aim, random_targets(y, 5, seed=2))
    for c in range(1, 5):
        assert_mean((aim[y == 0] == c).double(), 0.25)


@pytest.mark.parametrize(
    ("options", "key", "remedy"),
    [
        ({"method": "cw"}, "method", "use one of fast_sign, pgd_linf, pgd_l2"),
        ({"method": "pgd_linf", "epsilon": -1}, "epsilon", "a finite number from 0"),
        ({"method": "pgd_linf"}, "epsilon", "give the bound"),
        ({"epsilon": 8}, "method", "leave out epsilon and random_start, or use pgd_linf"),
        ({"random_start": True}, "method", "leave out epsilon and random_start, or use pgd_linf"),
        ({"step": 0}, "step", "a finite number above 0"),
        ({"step": 1e20}, "step", "up to 1e+06"),
        ({"method": "pgd_l2", "epsilon": 1e20}, "epsilon", "up to 1e+06"),
        ({"step": float("nan")}, "step", "a finite number"),
        ({"iterations": -1}, "iterations", "a whole number from 0"),
        ({"samples": 0}, "samples", "a whole number from 1"),
        ({"judged": 11}, "judged", "a whole number from 1 to samples=10"),
        ({"judged": True}, "judged", "a whole number"),
        ({"judged": 2.0}, "judged", "a whole number"),
        ({"seed": 2**70}, "seed", "a whole number from 0"),
        ({"targeted": "no"}, "targeted", "true, false"),
    ],
)
def test_wrong_options(options, key, remedy):
    with pytest.raises(ConfigError) as caught:
        Attack(**options)
    assert caught.value.key == key and remedy in str(caught.value)


@pytest.mark.parametrize(
    ("x", "aim", "words"),
    [
        (torch.rand(2, *SHAPE) - 0.5, torch.zeros(2).long(), "not of 0..255"),
        (torch.full((2, *SHAPE), math.nan), torch.zeros(2).long(), "not of 0..255"),
        (torch.rand(2, *SHAPE), torch.zeros(3).long(), "2 images come with 3 classes"),
        (torch.rand(0, *SHAPE), torch.zeros(0).long(), "at least one image"),
        (torch.rand(2, *SHAPE), torch.zeros(2).long(), "the images are of 0..1"),
        (torch.full((2, *SHAPE), 7.0), torch.zeros(2), "are (2,) of torch.float32: give one torch.int64 for each"),
        (torch.full((2, *SHAPE), 7.0), torch.zeros(2, 1).long(), "the classes are (2, 1)"),
        (torch.full((2, *SHAPE), 7.0), [0, 0], "the classes are a list: give a torch.Tensor"),
        (torch.full((2, *SHAPE), 7.0), torch.tensor([0, 2]), "but the network knows 0 to 1"),
        (torch.full((2, *SHAPE), 7.0), torch.tensor([0, -1]), "classes -1 to 0 were given"),
    ],
)
def test_wrong_images(x, aim, words):
    with pytest.raises(ValueError) as caught:
        attacks.run(linear(), x, aim, Attack())
    assert words in str(caught.value)


def test_pixels_of_a_wrong_scale():
    assert Pixels(nn.Identity(), torch.tensor([0.5]), torch.tensor([0.5]))(torch.tensor([[[255.0]]])).item() == 1
    with pytest.raises(ConfigError, match="use numbers above 0") as caught:
        Pixels(nn.Identity(), (0.5,), (0.0,))
    assert caught.value.key == "std"
    colours = Pixels(nn.Identity(), (0.5, 0.5, 0.5), (1.0,))
    assert colours(torch.zeros(2, 3, 4, 4)).shape == (2, 3, 4, 4)
    with pytest.raises(ValueError, match=r"shape \(2, 16\) have no channels"):
        colours(torch.zeros(2, 16))
    with pytest.raises(ValueError, match=r"shape \(2, 1, 4, 4\) meet a mean and std of 3 channels"):
        colours(torch.zeros(2, 1, 4, 4))
