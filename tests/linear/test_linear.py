"""Linear models as their users see them: scikit-learn's own checks, known answers, relevance, bad input."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.linear.linear_data import data
from tests.statistics_helper import Z, assert_mean
from varnet.errors import ConfigError
from varnet.linear import GKLClassifier, GKLRegressor, SelectionWarning, VDClassifier, VDRegressor

REGRESSORS, CLASSIFIERS = [VDRegressor, GKLRegressor], [VDClassifier, GKLClassifier]


@pytest.mark.filterwarnings("ignore:none of:varnet.linear.SelectionWarning")  # the targets of some checks are noise
@parametrize_with_checks([model() for model in REGRESSORS + CLASSIFIERS])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS)
@pytest.mark.parametrize("objects, features", [(300, 50), (150, 200)])
def test_relevant_features_are_found(model, objects, features):
    X, t = data(objects, features, labels=model in CLASSIFIERS)
    model = model().fit(X, t)
    assert model.relevant_.tolist() == [True] * 5 + [False] * (features - 5)
    assert (np.ravel(model.coef_) != 0).tolist() == model.relevant_.tolist()
    log_alpha = np.ravel(model.log_alpha_)
    assert (log_alpha[:5] < model.threshold_).all() and (log_alpha[5:] > model.threshold_).all()
    assert model.score(X, t) > 0.8


@pytest.mark.parametrize("model", REGRESSORS)
def test_noise_and_weights_are_those_of_least_squares_on_the_relevant_features(model):
    X, t = data(2000, 30)
    model = model().fit(X, t)
    least_squares = LinearRegression().fit(X[:, :5], t)
    residual = np.square(least_squares.predict(X[:, :5]) - t).sum() / (2000 - 6)
    np.testing.assert_allclose(model.noise_variance_, residual, rtol=2e-3)
    error = np.sqrt(model.variance_[:5])
    assert (np.abs(model.coef_[:5] - least_squares.coef_) < 0.1 * error).all()
    # the variances are those of least squares, features being independent, up to their sample correlations
    expected = residual / np.square(X[:, :5] - X[:, :5].mean(0)).sum(0)
    np.testing.assert_allclose(model.variance_[:5], expected, rtol=0.05)
    assert abs(model.noise_variance_ - 0.09) < Z * 0.09 * np.sqrt(2 / 2000)


def test_predictive_distribution_of_regression():
    X, t = data()
    model = VDRegressor(threshold=np.inf).fit(X, t)
    mean, std = model.predict(X[:4], return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X[:4]))
    w = torch.tensor(model.coef_) + torch.tensor(model.variance_).sqrt() * torch.randn(100_000, 30).double()
    draws = w @ torch.tensor(X[:4] - model.mean_).T + t.mean()
    draws = draws + model.noise_variance_**0.5 * torch.randn(100_000, 4).double()
    assert_mean(draws, torch.tensor(mean))
    assert_mean((draws - torch.tensor(mean)).square(), torch.tensor(std**2))


def test_predictive_probabilities():
    X, t = data(labels=True)
    model = GKLClassifier(threshold=np.inf).fit(X, t)
    w = torch.tensor(model.coef_) + torch.tensor(model.variance_).sqrt() * torch.randn(100_000, 30).double()
    bias = torch.tensor(model.intercept_ + model.coef_ @ model.mean_)
    p = torch.sigmoid(w @ torch.tensor(X[:6] - model.mean_).T + bias)
    assert_mean(p, torch.tensor(model.predict_proba(X[:6])[:, 1]))
    odds = model.decision_function(X)
    np.testing.assert_allclose(expit(odds), model.predict_proba(X)[:, 1], rtol=1e-9)
    np.testing.assert_array_equal(odds > 0, model.predict(X))


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_more_than_two_classes(model):
    X, t = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[t]
    model = model().fit(X, names)
    assert model.coef_.shape == model.log_alpha_.shape == model.variance_.shape == (3, 4)
    assert model.score(X, names) > 0.9
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_array_equal(model.classes_[p.argmax(1)], model.predict(X))
    assert model.decision_function(X).shape == (150, 3)


@pytest.mark.filterwarnings("ignore:none of 30 features")  # by a threshold of -8
def test_clone_pipeline_and_grid_search():
    X, t = data()
    model = VDRegressor(threshold=-1.0, tol=1e-2)
    assert clone(model).get_params() == model.get_params()
    pipeline = make_pipeline(StandardScaler(), model)
    assert cross_val_score(pipeline, X, t).mean() > 0.9
    search = GridSearchCV(pipeline, {"vdregressor__threshold": [-8.0, 3.0, "ebic"]}).fit(X, t)
    assert search.best_params_["vdregressor__threshold"] == "ebic"


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS)
def test_without_relevant_features_the_mean_is_predicted(model):
    rng = np.random.default_rng(1)
    X, t = rng.standard_normal((300, 5)), rng.permutation(np.repeat([0, 1], [100, 200]))
    X[:, 0] = 0.1  # a constant feature
    with pytest.warns(SelectionWarning, match="none of 5 features is left.* a threshold above -"):
        fitted = model().fit(X, t)
    assert not fitted.relevant_.any() and not fitted.coef_.any()
    value = fitted.predict_proba(X)[:, 1] if model in CLASSIFIERS else fitted.predict(X)
    np.testing.assert_allclose(value, 2 / 3, rtol=1e-3)


@pytest.mark.parametrize("model", REGRESSORS)
def test_degenerate_targets(model):
    X, _ = data()
    with pytest.warns(SelectionWarning, match="none of 30 features"):
        constant = model().fit(X, np.full(200, 7.0))
    assert (constant.predict(X) == 7.0).all()
    w = np.r_[1.0, 2.0, np.zeros(28)]
    np.testing.assert_allclose(model().fit(X, X @ w).coef_, w, atol=1e-5)  # no noise


BAD_OPTIONS = [
    ({"threshold": "bic"}, "log alpha, infinity for none, or ebic"),
    ({"threshold": float("nan")}, "finite number"),
    ({"threshold": None}, "finite number"),
    ({"tol": 0}, "above 0"),
    ({"tol": None}, "finite number"),
    ({"max_iter": None}, "whole number from 1"),
    ({"max_iter": 0}, "whole number from 1"),
    ({"max_iter": 2.5}, "whole number from 1"),
    ({"fit_intercept": "yes"}, "true, false"),
]


def assert_wrong(model, X, t, options, remedy):
    with pytest.raises(ConfigError, match=remedy) as error:
        model(**options).fit(X, t)
    assert error.value.key == next(iter(options))


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS)
@pytest.mark.parametrize("options, remedy", BAD_OPTIONS, ids=[str(options) for options, _ in BAD_OPTIONS])
def test_wrong_options(model, options, remedy):
    assert_wrong(model, *data(labels=model in CLASSIFIERS), options, remedy)


def test_wrong_options_of_one_kind():
    X, t = data()
    assert_wrong(VDRegressor, X, t, {"noise_variance": -1.0}, "above 0")
    assert_wrong(VDClassifier, X, t > 3, {"n_nodes": 0}, "whole number from 1")
    for wrong in ("equal", {0: -1.0}, {5: 1.0}, {"a": 1.0}):
        assert_wrong(VDClassifier, X, (t > 3).astype(int), {"class_weight": wrong}, "balanced|names no class")
    with pytest.raises(ConfigError, match="use weights from 0") as error:
        VDRegressor().fit(X, t, np.r_[-1.0, np.ones(199)])
    assert error.value.key == "sample_weight"
    with pytest.raises(ValueError, match="could not convert string to float"):
        VDRegressor().fit(X, np.repeat("a", 200))
    with pytest.raises(ConfigError, match="one class, 1") as error:
        VDClassifier().fit(X, np.ones(200, int))
    assert error.value.key == "y"


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert VDRegressor(max_iter=np.int64(500)).fit(*data()).score(*data()) > 0.9


def test_no_convergence_is_said():
    X, t = data()
    with pytest.warns(ConvergenceWarning, match="no convergence in max_iter=2 steps"):
        model = VDRegressor(max_iter=2).fit(X, t)
    assert model.n_iter_ == 2
