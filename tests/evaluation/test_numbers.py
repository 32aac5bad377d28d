"""Mixtures of samples: moments and likelihood against torch, coverage of data that comes from them, what is refused."""

import math

import pytest
import torch
from torch import distributions as known
from torch import nn

from tests.nn.refused import assert_refused
from tests.statistics_helper import Z
from varnet import Ensemble, mixture, predict, variational
from varnet.evaluation import numbers, weight_mixture
from varnet.evaluation.mixtures import Mixture
from varnet.evaluation.predictions import elbo
from varnet.nn.likelihoods import Gaussian, Given, LearnedVariance, likelihood_of, standardised

K, N = 4, 2000
PREDICTED = Gaussian(variance="predicted")


@pytest.fixture
def outputs() -> torch.Tensor:
    """Means that differ by sample, log variances: (K, N, 2)"""
    return torch.randn(K, N, 2, dtype=torch.double)


def drawn(outputs: torch.Tensor, likelihood: str) -> torch.Tensor:
    """Targets that come from the mixture: of a random sample for each object."""
    chosen = outputs[torch.randint(K, (N,)), torch.arange(N)]
    if likelihood == "poisson":
        return torch.poisson(chosen[:, :1].exp())
    return chosen[:, :1] + (chosen[:, 1:] / 2).exp() * torch.randn(N, 1)


def of_torch(outputs: torch.Tensor) -> known.MixtureSameFamily:
    parts = known.Normal(outputs[..., 0].T, (outputs[..., 1].T / 2).exp())
    return known.MixtureSameFamily(known.Categorical(torch.ones(N, K, dtype=torch.double)), parts)


def test_the_predictive_of_several_samples_is_their_mixture(outputs):
    found, wanted = Mixture(drawn(outputs, "gaussian"), outputs, PREDICTED), of_torch(outputs)
    torch.testing.assert_close(found.log_prob(), wanted.log_prob(found.y[:, 0]))
    torch.testing.assert_close(found.mean[:, 0], wanted.mean)
    torch.testing.assert_close(found.variance[:, 0], wanted.variance)
    torch.testing.assert_close(found.cdf()[0][:, 0], wanted.cdf(found.y[:, 0]))
    assert (found.epistemic > 0).all() and torch.equal(found.first.outputs, outputs[:1])
    assert found.first.epistemic.abs().max() == 0
    assert numbers.nll(found) == pytest.approx(-float(wanted.log_prob(found.y[:, 0]).mean()))
    low, high = found.interval(0.9)
    torch.testing.assert_close(wanted.cdf(low[:, 0]), torch.full((N,), 0.05, dtype=torch.double), atol=1e-8, rtol=0)
    torch.testing.assert_close(wanted.cdf(high[:, 0]), torch.full((N,), 0.95, dtype=torch.double), atol=1e-8, rtol=0)
    assert_refused(lambda: found.interval(1), "level", "use a finite number above 0 below 1")


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_the_coverage_of_data_from_the_model_is_nominal(outputs, likelihood):
    """Also of counts, which lie partly inside. Its standard error is at most that of so many coins."""
    chosen = PREDICTED if likelihood == "gaussian" else likelihood_of("poisson")
    found = Mixture(drawn(outputs, likelihood), outputs if likelihood == "gaussian" else outputs[..., :1], chosen)
    for level, covered in zip(numbers.LEVELS, numbers.coverages(found), strict=True):
        assert abs(covered / 100 - level) < Z * math.sqrt(level * (1 - level) / N), level
    assert numbers.calibration(found) < 100 * Z * 0.5 / math.sqrt(N)
    certain = Mixture(found.y, found.outputs - (4 if likelihood == "poisson" else torch.tensor([0.0, 6.0])), chosen)
    assert numbers.coverage(certain) < 80 and numbers.calibration(certain) > 10


def test_errors_are_in_the_units_of_the_targets():
    train = 100 + 20 * torch.randn(500, 1).double()
    chosen = standardised(PREDICTED, train)
    y = torch.tensor([[100.0], [130.0]]).double()
    found = Mixture(y, torch.zeros(3, 2, 2).double(), chosen)
    mean, std = float(train.mean()), float(train.std(correction=0))
    assert numbers.rmse(found) == pytest.approx(math.sqrt(((100 - mean) ** 2 + (130 - mean) ** 2) / 2))
    summary = numbers.summary(found)
    assert summary["aleatoric"] == pytest.approx(std) and summary["epistemic"] == 0
    assert summary["nll"] == pytest.approx(-float(known.Normal(mean, std).log_prob(y).mean()))


def test_labels():
    y = torch.tensor([[1, 0], [1, 1], [0, 0]]).double()
    logits = torch.tensor([[3.0, -3.0], [3.0, -3.0], [3.0, -3.0]]).double()
    found = Mixture(y, logits[None], likelihood_of("bernoulli"))
    p = float(torch.sigmoid(torch.tensor(3.0)))
    assert numbers.accuracy(found) == pytest.approx(100 * 4 / 6)
    assert numbers.brier(found) == pytest.approx((4 * (1 - p) ** 2 + 2 * p**2) / 6)
    assert numbers.ece(found) == pytest.approx(p - 2 / 3)  # both bins: 2 of 3 right
    assert list(numbers.summary(found)) == ["acc", "nll", "brier", "ece"]


def test_nan_is_no_number(outputs):
    found = Mixture(drawn(outputs, "gaussian"), outputs * torch.nan, PREDICTED)
    assert all(math.isnan(value) for value in numbers.summary(found).values())
    labels = Mixture(torch.ones(N, 2), outputs * torch.nan, likelihood_of("bernoulli"))
    assert all(math.isnan(value) for value in numbers.summary(labels).values())


def network(param: str = "additive") -> nn.Sequential:
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    return variational(net, param=param, log_alpha=0.0).append(LearnedVariance())


X, Y = torch.randn(30, 2), torch.randn(30, 1)
BATCHES, LEARNED = [(X[:20], Y[:20]), (X[20:], Y[20:])], Gaussian(variance="learned")


@torch.no_grad()
def test_every_mode_of_a_network_is_measured():
    found = numbers.evaluate(network(), BATCHES, 5, 0, None, LEARNED)
    modes = ("det", "1", "k", "zero_mean_k")
    assert list(found) == [f"{key}_{mode}" for key in ("rmse", "nll", "coverage", "calibration") for mode in modes]
    assert len({found[f"nll_{mode}"] for mode in modes}) == 4
    plain = nn.Sequential(nn.Linear(2, 1), LearnedVariance())
    same = numbers.evaluate(plain, BATCHES, 5, 0, None, LEARNED)
    assert same["rmse_det"] == same["rmse_1"] == same["rmse_k"] and same["rmse_zero_mean_k"] is None
    assert same["rmse_det"] == pytest.approx(float((plain[0](X) - Y).square().mean().sqrt()))
    term = elbo(plain, BATCHES, 3, 0, LEARNED)
    assert term["data_term"] == pytest.approx(float(LEARNED.log_prob(plain(X), Y).sum())) and term["elbo_error"] == 0


def test_samples_of_the_weights_and_of_ensembles():
    nets = [network(), network("layer")]
    together = mixture(Ensemble(nets), BATCHES, LEARNED, samples=3, seed=1)
    assert together.outputs.shape == (6, 30, 2) and together.first.outputs.shape == (2, 30, 2)
    assert torch.equal(together.first.outputs[1], together.outputs[3])
    held = weight_mixture(nets[0], BATCHES, LEARNED, 4, seed=1)
    again = weight_mixture(nets[0], [(X, Y)], LEARNED, 4, seed=1)
    torch.testing.assert_close(held.outputs, again.outputs)  # one draw for the whole set


def test_a_function_is_measured_by_its_likelihood():
    function = Given(lambda out, y: -(out - y).square().sum(1))
    found = numbers.evaluate(nn.Linear(2, 1), BATCHES, 2, 0, None, function)
    assert list(found) == ["nll_det", "nll_1", "nll_k", "nll_zero_mean_k"]


def test_what_is_not_for_each_other_is_refused():
    model = nn.Linear(2, 1)
    assert_refused(lambda: predict(model, BATCHES), "target", "whole numbers of classes")
    assert_refused(lambda: mixture(model, BATCHES, "categorical"), None, "varnet.predict")
    assert_refused(lambda: mixture(model, [(X, Y[:, 0])], "gaussian"), "target", "outputs have shape (30, 1)")
    assert_refused(lambda: mixture(model, [], "gaussian"), None, "no batches to predict")
