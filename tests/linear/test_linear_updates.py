"""Linear models: every update against its objective, no step that raises it, stationary points."""

import itertools

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import expit

from tests.linear.linear_data import data
from varnet.linear import GKLClassifier, GKLRegressor, VDClassifier, VDRegressor
from varnet.linear.alpha import ARD, HIGH, LogUniform, log_alpha_at
from varnet.linear.classification import Logistic, normal_nodes
from varnet.linear.descent import ridge, threshold_of
from varnet.linear.regression import Regression
from varnet.nn.priors import ard, loguniform

REGRESSORS, CLASSIFIERS = [VDRegressor, GKLRegressor], [VDClassifier, GKLClassifier]
DIVERGENCES = [LogUniform(), ARD()]
KL = {LogUniform: loguniform.exact, ARD: ard.kl}


# alpha


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_divergence_is_that_of_varnet_prior_and_slope_is_its_derivative(divergence):
    log_alpha = torch.linspace(-15, 15, 61, dtype=torch.double, requires_grad=True)
    value = KL[type(divergence)](log_alpha)
    (slope,) = torch.autograd.grad(value.sum(), log_alpha)
    grid = log_alpha.detach().numpy()
    np.testing.assert_allclose(divergence.kl(grid), value.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(divergence.slope(grid), slope.numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_best_alpha_minimises(divergence):
    for c in np.logspace(-14, 7, 43):
        found = divergence.best(np.array([c]))[0]
        expected = minimize_scalar(
            lambda a, c=c: c * np.exp(a) + divergence.kl(np.array([a]))[0],
            bounds=(found - 5, found + 5), method="bounded", options={"xatol": 1e-8},
        )  # fmt: skip
        assert abs(found - expected.x) < 1e-3
        # the derivative, far more precise than a comparison of values
        assert abs(c * np.exp(found) + divergence.slope(found)) < 1e-9 * max(1, c * np.exp(found))


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_best_alpha_at_the_ends(divergence):
    assert divergence.best(np.array([0.0]))[0] == HIGH
    assert divergence.best(np.array([1e30]))[0] == -HIGH
    assert (np.diff(divergence.best(np.logspace(-20, 20, 400))) <= 0).all()


def test_log_alpha_at():
    assert log_alpha_at(ARD(), 5.0) == pytest.approx(-np.log(4))
    for divergence in DIVERGENCES:
        assert log_alpha_at(divergence, 0.99) == HIGH
        assert log_alpha_at(divergence, 1e20) == -HIGH
    assert threshold_of("ebic", ARD(), 1000, 1000) == pytest.approx(-np.log(3 * np.log(1000) - 1))
    assert threshold_of("ebic", ARD(), 2, 1) == pytest.approx(-np.log(3))
    assert threshold_of(np.inf, ARD(), 2, 1) == np.inf


# the exact update


@pytest.mark.parametrize("objects, features", [(40, 10), (10, 40), (20, 20)])
def test_exact_update_minimises_its_objective(objects, features):
    rng = np.random.default_rng(0)
    X, t = rng.standard_normal((objects, features)), rng.standard_normal(objects)
    kappa = rng.uniform(0.01, 5, features) * (X**2).sum(0)
    w = ridge(X, t, kappa)
    variable = torch.tensor(w, requires_grad=True)
    objective = (torch.tensor(X) @ variable - torch.tensor(t)).square().sum() + (
        torch.tensor(kappa) * variable.square()
    ).sum()
    (gradient,) = torch.autograd.grad(objective, variable)
    assert gradient.abs().max() < 1e-9
    wrong_sign = np.linalg.solve(X.T @ X - np.diag(kappa), X.T @ t)  # as the slides print it
    assert np.abs(w - wrong_sign).max() > 0.01


def negative_elbo(model, X, t, log_alpha, w, noise_variance):
    """The slides' objective in the user's units, in torch; X and t centred."""
    x, t = torch.tensor(X - X.mean(0)), torch.tensor(t - t.mean())
    error = (x @ w - t).square().sum() + (x.square() @ (log_alpha.exp() * w.square())).sum()
    data_term = 0.5 * (len(t) * (2 * torch.pi * noise_variance).log() + error / noise_variance)
    return data_term + KL[type(model.divergence)](log_alpha).sum()


@pytest.mark.filterwarnings("ignore:60 features are left for 40 objects")
@pytest.mark.parametrize("model", REGRESSORS)
@pytest.mark.parametrize("shape", [(200, 30), (40, 60)])
def test_regression_is_a_stationary_point_of_the_objective(model, shape):
    X, t = data(*shape)
    model = model(threshold=np.inf, tol=1e-9, max_iter=20_000).fit(X, t)
    values = [
        torch.tensor(v, dtype=torch.double, requires_grad=True)
        for v in (model.log_alpha_, model.coef_, model.noise_variance_)
    ]
    loss = negative_elbo(model, X, t, *values)
    assert loss.item() == pytest.approx(model.negative_elbo_[-1])
    for_alpha, for_w, for_noise = torch.autograd.grad(loss, values)
    error = model.noise_variance_**0.5 / np.sqrt(np.square(X - X.mean(0)).sum(0))
    assert np.abs(for_w.numpy() * error).max() < 1e-6
    inside = np.abs(model.log_alpha_) < HIGH
    assert inside.any() and np.abs(for_alpha.numpy()[inside]).max() < 1e-6
    assert abs(for_noise.item() * model.noise_variance_) < 1e-6


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_no_step_of_regression_raises_the_loss(divergence):
    X, t = data()
    x = X - X.mean(0)
    problem = Regression(x / np.linalg.norm(x, axis=0), t - t.mean(), divergence)
    losses = [problem.negative_elbo()]
    for _ in range(40):
        problem.step()
        losses.append(problem.negative_elbo())
    assert losses[-1] < losses[0] - 10
    assert np.diff(losses).max() < 1e-9


def test_orthogonal_features_have_a_closed_form():
    """ARD: dropout rate alpha/(1 + alpha) = 1/z^2 and weight (least squares) (1 - 1/z^2) for z > 1, else 0."""
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.standard_normal((200, 8)))[0]
    z = np.array([0.2, -0.7, 1.5, -2.0, 3.0, 5.0, -10.0, 30.0])
    model = GKLRegressor(threshold=np.inf, noise_variance=0.25, fit_intercept=False, tol=1e-10, max_iter=10_000)
    model.fit(X, 0.5 * X @ z)
    shrinkage = np.clip(1 - 1 / z**2, 0, None)
    np.testing.assert_allclose(model.coef_, 0.5 * z * shrinkage, atol=1e-6)
    np.testing.assert_allclose(expit(model.log_alpha_[2:]), 1 / z[2:] ** 2, rtol=1e-5)
    assert model.noise_variance_ == 0.25


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS)
def test_models_do_not_depend_on_the_scale_of_features(model):
    X, t = data(labels=model in CLASSIFIERS)
    scale = np.logspace(-3, 3, X.shape[1])
    one, other = model().fit(X, t), model().fit(X * scale, t)
    np.testing.assert_allclose(other.coef_ * scale, one.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(one.relevant_, other.relevant_)


@pytest.mark.parametrize("model", REGRESSORS)
def test_regression_follows_the_units_of_the_target(model):
    X, t = data()
    one, other = model().fit(X, t), model().fit(X, 1e6 * t)
    np.testing.assert_allclose(other.coef_, 1e6 * one.coef_, rtol=1e-6)
    assert other.noise_variance_ == pytest.approx(1e12 * one.noise_variance_)


# logistic regression


def test_quadrature():
    for std, n in itertools.product((0.1, 1.0, 3.0), (32, 1000)):
        nodes, weights = normal_nodes(n)
        for function in (expit, lambda f: np.logaddexp(0, -f)):
            exact = quad(lambda y, f=function, s=std: f(0.7 + s * y) * np.exp(-y * y / 2) / np.sqrt(2 * np.pi), -12, 12)
            assert abs(function(0.7 + std * nodes) @ weights - exact[0]) < 1e-4


@pytest.mark.parametrize("model", CLASSIFIERS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(200, 20), (60, 90)])
def test_logistic_regression_is_a_stationary_point_of_the_objective(model, fit_intercept, shape):
    X, t = data(*shape, labels=True)
    model = model(threshold=np.inf, tol=1e-7, max_iter=20_000, fit_intercept=fit_intercept).fit(X, t)
    bias = model.intercept_[0] + model.coef_[0] @ model.mean_
    values = [
        torch.tensor(v, dtype=torch.double, requires_grad=True) for v in (model.log_alpha_[0], model.coef_[0], bias)
    ]
    log_alpha, w, b = values
    x, sign = torch.tensor(X - model.mean_), torch.tensor(2.0 * t - 1)
    std = (x.square() @ (log_alpha.exp() * w.square())).sqrt()
    nodes, weights = map(torch.tensor, normal_nodes(32))
    logits = (x @ w + b)[:, None] + std[:, None] * nodes
    loss = -torch.nn.functional.logsigmoid(sign[:, None] * logits) @ weights
    loss = loss.sum() + KL[type(model.divergence)](log_alpha).sum()
    assert loss.item() == pytest.approx(model.negative_elbo_[0][-1])
    for_alpha, for_w, for_bias = torch.autograd.grad(loss, values)
    inside = np.abs(model.log_alpha_[0]) < HIGH
    assert inside.any() and np.abs(for_alpha.numpy()[inside]).max() < 1e-5
    assert np.abs(for_w.numpy() / np.sqrt(np.square(x.numpy()).sum(0))).max() < 1e-5
    assert not fit_intercept or abs(for_bias.item()) < 1e-5


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_no_step_of_logistic_regression_raises_the_loss(divergence):
    X, t = data(100, 60, labels=True)
    problem = Logistic((X - X.mean(0)) / X.std(0), t.astype(float), divergence, True, 32)
    losses = [problem.negative_elbo()]
    for _ in range(40):
        problem.step()
        losses.append(problem.negative_elbo())
    assert losses[-1] < losses[0] - 5
    assert np.diff(losses).max() < 1e-9
