"""Predictions against a slow reference, and the numbers against hand-computed ones."""

import math

import pytest
import torch
from torch import nn

from tests.statistics_helper import assert_mean, assert_same_mean
from varnet import predicting, resample
from varnet.evaluation import metrics
from varnet.evaluation import predictions as evaluation
from varnet.evaluation.one_mask import one_mask
from varnet.evaluation.predictions import (
    batch_size,
    batch_statistics,
    data_term,
    evaluate,
    is_stochastic,
    isolated,
    predict,
    weight_samples,
)
from varnet.nn.layers import Linear
from varnet.nn.networks import build


def batches(n: int = 40, classes: int = 3):
    x, y = torch.randn(n, 6), torch.randint(classes, (n,))
    return [(x[:25], y[:25]), (x[25:], y[25:])]


def network(**options) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), Linear(8, 5, **options), nn.Tanh(), nn.Linear(5, 3))


def reference(model: nn.Module, x: torch.Tensor, samples: int) -> torch.Tensor:
    """The plain loop."""
    return torch.stack([model(x).softmax(1) for _ in range(samples)])


@pytest.mark.parametrize("options", [{"log_alpha": 1.0}, {"param": "zero_mean", "noise": "uniform"}])
@pytest.mark.parametrize("mode", ["sample", "zero_mean", "deterministic"])
def test_predictions_are_those_of_the_plain_loop(options, mode):
    model, data = network(**options), batches()
    got = predict(model, data, mode, samples=5, seed=3)
    with isolated(3), torch.no_grad(), predicting(model, mode):
        probs = torch.cat([reference(model, x, 5) for x, _ in data], 1)
    torch.testing.assert_close(got.log_probs.exp(), probs.mean(0))
    torch.testing.assert_close(got.first.exp(), probs[0])
    torch.testing.assert_close(got.expected_entropy, -(probs * probs.log()).sum(2).mean(0))
    assert torch.equal(got.y, torch.cat([y for _, y in data]))


def test_permuted_sigma_keeps_one_permutation_over_the_batches_and_acts_on_chosen_layers():
    model, data = nn.Sequential(Linear(6, 5, log_alpha=2.0), nn.Tanh(), Linear(5, 3, log_alpha=2.0)), batches()
    got = predict(model, data, "permuted", samples=3, seed=1, layers=["0"])
    with isolated(1), torch.no_grad(), predicting(model, "permuted", ["0"]):
        assert model[0].permutation is not None and model[2].permutation is None
        probs = torch.cat([reference(model, x, 3) for x, _ in data], 1)
    torch.testing.assert_close(got.log_probs.exp(), probs.mean(0))


def test_a_weight_sample_is_one_draw_for_the_whole_set():
    torch.manual_seed(0)
    model, (x, y) = network(log_alpha=2.0), batches()[0]
    whole = weight_samples(model, [(x, y)], draws=6, seed=4)
    parts = weight_samples(model, [(x[:7], y[:7]), (x[7:], y[7:])], draws=6, seed=4)
    assert torch.equal(whole.accuracy, parts.accuracy)
    torch.testing.assert_close(whole.average.log_probs, parts.average.log_probs)
    assert whole.accuracy.unique().numel() > 1, "the draws are all the same"


def test_a_weight_sample_of_dropout_is_one_mask_for_the_whole_set():
    model, (x, _) = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3)), batches()[0]
    alike = x[:1].expand(11, 6)
    found = weight_samples(model, [(part, y_of(part)) for part in (alike[:4], alike[4:])], draws=3, seed=2)
    torch.testing.assert_close(found.average.log_probs, found.average.log_probs[:1].expand(11, 3))
    one = [weight_samples(model, [(x, y_of(x))], draws=1, seed=seed).average.log_probs for seed in (0, 1)]
    assert not torch.equal(*one), "the masks are all the same"
    assert type(model[1]) is nn.Dropout and model[1].training


def y_of(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(x), dtype=torch.long)


def test_masks_of_one_draw_have_the_moments_of_dropout():
    x = torch.ones(2, 4000)
    with one_mask(model := nn.Sequential(nn.Dropout(0.3))):
        out = model(x)
    assert torch.equal(out[0], out[1])
    assert_mean(out[0][:, None], torch.ones(1))
    assert out.unique().tolist() == pytest.approx([0, 1 / 0.7])


def test_a_single_draw_is_the_first_of_several():
    model, data = network(log_alpha=2.0), batches()
    one, several = (weight_samples(model, data, draws=n, seed=3) for n in (1, 4))
    assert one.accuracy[0] == several.accuracy[0]


def test_weight_samples_have_the_accuracy_of_weight_samples():
    torch.manual_seed(0)
    model, data = network(log_alpha=2.0), batches(400)
    fast = weight_samples(model, data, draws=300).accuracy
    slow = []
    with torch.no_grad(), predicting(model, "weights"):
        for _ in range(300):
            resample(model)
            slow.append(sum((model(x).argmax(1) == y).sum() for x, y in data) / 4)
    assert_same_mean(fast, torch.stack(slow))
    assert_same_mean((fast - fast.mean()).square(), (torch.stack(slow) - torch.stack(slow).mean()).square())


def test_no_batches_is_an_error():
    with pytest.raises(ValueError, match="no batches"):
        predict(network(), [])


def test_the_batch_fits_the_device_and_the_limit():
    assert batch_size(torch.device("cpu"), 500) == (200, None) and batch_size(torch.device("cpu"), 50) == (50, None)
    assert batch_size(torch.device("cuda"), 500) == (500, 500)


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
    torch.testing.assert_close(metrics.average_probs(list(p)).exp(), torch.tensor([[0.7, 0.3]]))


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


def test_the_generator_of_mps_is_left_alone_too(monkeypatch):
    put_back = []
    monkeypatch.setattr(evaluation.device, "has_mps", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: "before")
    monkeypatch.setattr(torch.mps, "set_rng_state", put_back.append)
    with pytest.raises(ZeroDivisionError), evaluation.isolated(0):
        assert not put_back and 1 / 0
    assert put_back == ["before"]


def test_data_term_is_the_mean_over_samples():
    model = nn.Sequential(Linear(6, 3, log_alpha=0.0))
    x, y = torch.randn(10, 6), torch.randint(3, (10,))
    with torch.no_grad():
        samples = torch.stack([-nn.functional.cross_entropy(model(x), y, reduction="sum") for _ in range(3000)])
    found = [data_term(model, [(x, y)], samples=10, seed=s) for s in range(300)]
    estimates, errors = (torch.tensor(values) for values in zip(*found, strict=True))
    assert_same_mean(estimates, samples)
    assert_mean(errors.square(), float(samples.var() / 10))  # the standard error is the right one
    assert data_term(model, [(x, y)], samples=1, seed=0)[1] is None


def test_lenet_modes_have_the_names_of_the_metrics():
    model = build("lenet5", (1, 28, 28), 10)
    metrics = evaluate(model, [(torch.rand(4, 1, 28, 28), torch.arange(4))], samples=2, seed=0)
    assert set(metrics) == {f"{n}_{m}" for n in ("acc", "nll") for m in ("det", "1", "k", "zero_mean_k")}


def test_batch_norm_by_the_test_batch_equals_training_mode_and_leaves_no_trace():
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
    model(5 * torch.randn(50, 6) + 2)  # running statistics of other data
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x, y = torch.randn(16, 6), torch.randint(3, (16,))
    with batch_statistics(model):
        found = predict(model, [(x, y)], "deterministic").log_probs
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    plain = predict(model, [(x, y)], "deterministic").log_probs
    expected = model.train()(x).log_softmax(1)
    torch.testing.assert_close(found, expected.detach())
    assert not torch.allclose(found, plain, atol=0.1)


def test_a_network_of_nan_has_no_accuracy():
    model = network(log_alpha=1.0)
    model[4].bias.data.fill_(math.nan)
    data = [(x, torch.zeros_like(y)) for x, y in batches()]  # NaN looks like class 0
    found = predict(model, data, samples=3)
    assert found.log_probs.isnan().all() and math.isnan(metrics.summary(found)["accuracy"])
    assert weight_samples(model, data, draws=3).accuracy.isnan().all()
    assert all(math.isnan(value) for value in evaluate(model, data, samples=2, seed=0).values())
