"""Predictions against a slow reference, and the numbers against hand-computed ones."""

import math

import pytest
import torch
from statistics_helper import assert_same_mean
from torch import nn

from varnet import predicting
from varnet.evaluation import average_probs, data_term, evaluate, is_stochastic, isolated, sampled_log_probs
from varnet.layers import Linear
from varnet.models import build


def batches(n: int = 40, classes: int = 3):
    x, y = torch.randn(n, 6), torch.randint(classes, (n,))
    return [(x[:25], y[:25]), (x[25:], y[25:])]


def network(**options) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), Linear(8, 5, **options), nn.Tanh(), nn.Linear(5, 3))


@pytest.mark.parametrize(
    "options", [{"log_alpha": 1.0}, {"param": "zero_mean"}, {"param": "zero_mean", "noise": "uniform"}]
)
@pytest.mark.parametrize("mode", ["sample", "zero_mean", "permuted"])
def test_a_shared_prefix_changes_nothing_in_distribution(options, mode):
    model, x = network(**options), torch.randn(2, 6)
    with torch.no_grad(), predicting(model, mode):
        fast = torch.stack(sampled_log_probs(model, x, 4000)).exp()
        slow = torch.stack([model(x).softmax(1) for _ in range(4000)])
    assert_same_mean(fast, slow)
    assert_same_mean(fast.square(), slow.square())


def test_dropout_before_the_variational_layer_is_not_shared():
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), Linear(8, 3, log_alpha=-20.0))
    with torch.no_grad(), predicting(model, "sample"):
        a, b = sampled_log_probs(model, torch.randn(4, 6), 2)
    assert (a - b).abs().max() > 1e-2


def test_without_noise_all_modes_agree():
    model = nn.Sequential(nn.Linear(6, 3))
    metrics = evaluate(model, batches(), samples=5, seed=0)
    assert metrics["acc_det"] == metrics["acc_1"] == metrics["acc_k"] and metrics["acc_zero_mean_k"] is None
    assert not is_stochastic(model) and is_stochastic(network()) and is_stochastic(nn.Dropout(0.1))


def test_numbers_by_hand():
    weight = torch.tensor([[10.0, 0.0], [0.0, 10.0]])
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    model[0].weight.data.copy_(weight)
    x, y = torch.eye(2).repeat(2, 1), torch.tensor([0, 1, 0, 0])  # the last label is wrong
    metrics = evaluate(model, [(x, y)], samples=1, seed=0)
    assert metrics["acc_det"] == 75.0
    expected = (3 * math.log1p(math.exp(-10)) + math.log1p(math.exp(10))) / 4
    assert metrics["nll_det"] == pytest.approx(expected, rel=1e-5)


def test_average_of_probabilities():
    p = torch.tensor([[[0.9, 0.1]], [[0.5, 0.5]]]).log()
    torch.testing.assert_close(average_probs(list(p)).exp(), torch.tensor([[0.7, 0.3]]))


def test_k_samples_converge_to_the_zero_mean_network_only_for_large_alpha():
    data = batches(400)
    model = network(log_alpha=15.0)
    large = evaluate(model, data, samples=400, seed=0)
    assert large["nll_k"] == pytest.approx(large["nll_zero_mean_k"], abs=0.02)


def test_evaluating_does_not_disturb_the_random_numbers_and_is_reproducible():
    model, data = network(log_alpha=1.0), batches()
    before = torch.get_rng_state()
    first = evaluate(model, data, samples=3, seed=7)
    assert torch.equal(before, torch.get_rng_state())
    assert first == evaluate(model, data, samples=3, seed=7)
    assert first["nll_1"] != evaluate(model, data, samples=3, seed=8)["nll_1"]
    with isolated(3):
        a = torch.rand(1)
    with isolated(3):
        assert torch.equal(a, torch.rand(1))


def test_data_term_is_the_mean_over_samples():
    model = nn.Sequential(Linear(6, 3, log_alpha=0.0))
    x, y = torch.randn(10, 6), torch.randint(3, (10,))
    with torch.no_grad():
        samples = torch.stack([-nn.functional.cross_entropy(model(x), y, reduction="sum") for _ in range(3000)])
    estimates = torch.tensor([data_term(model, [(x, y)], samples=10, seed=s) for s in range(300)])
    assert_same_mean(estimates, samples)
    assert estimates.var() < samples.var()


def test_lenet_modes_have_the_names_of_the_metrics():
    model = build("lenet5", (1, 28, 28), 10)
    metrics = evaluate(model, [(torch.rand(4, 1, 28, 28), torch.arange(4))], samples=2, seed=0)
    assert set(metrics) == {f"{n}_{m}" for n in ("acc", "nll") for m in ("det", "1", "k", "zero_mean_k")}
