"""Which features linear models keep where that is hard (repeated columns, more features than objects), and weights."""

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_matrix
from scipy.stats import binom
from scipy.stats import t as student
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError

from tests.linear.linear_data import data
from tests.statistics_helper import Z
from varnet.linear import GKLClassifier, GKLRegressor, SelectionWarning, VDClassifier, VDRegressor
from varnet.linear.alpha import ARD, HIGH, LogUniform
from varnet.linear.classification import Logistic
from varnet.linear.regression import Regression

REGRESSORS, CLASSIFIERS = [VDRegressor, GKLRegressor], [VDClassifier, GKLClassifier]
MODELS = REGRESSORS + CLASSIFIERS
DIVERGENCES = [LogUniform(), ARD()]


def noisy(seed: int, objects: int = 60, features: int = 500, relevant: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Independent features; noise of variance 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((objects, features))
    return X, X[:, :relevant].sum(1) * 2 + rng.standard_normal(objects)


# repeated columns


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("copies", [2, 10])
def test_repeated_columns_change_nothing(model, copies):
    X, t = load_diabetes(return_X_y=True)
    t = t > 140 if model in CLASSIFIERS else t
    single = model().fit(X, t)
    repeated = model().fit(np.hstack([X, *[-3 * X] * (copies - 1)]), t)
    assert single.relevant_.sum() >= 3 and not repeated.relevant_[10:].any()
    np.testing.assert_allclose(np.ravel(repeated.coef_)[:10], np.ravel(single.coef_), rtol=1e-6, atol=1e-9)
    assert (np.atleast_2d(repeated.log_alpha_)[:, 10:] == HIGH).all()


@pytest.mark.filterwarnings("ignore:20 features are left")
def test_repeated_columns_share_the_weight_where_none_may_be_dropped():
    X, t = data(200, 10)
    fitted = VDRegressor(threshold=np.inf).fit(np.hstack([X, X]), t)
    np.testing.assert_allclose(fitted.coef_[:10], fitted.coef_[10:])


@pytest.mark.parametrize("model", REGRESSORS)
def test_of_columns_that_are_nearly_equal_some_are_kept(model):
    """All of the weak ones used to be dropped together: none was left of three copies."""
    X, t = load_diabetes(return_X_y=True)
    rng = np.random.default_rng(1)
    nearly = np.hstack([X, *(X + 1e-6 * X.std(0) * rng.standard_normal(X.shape) for _ in range(4))])
    fitted = model().fit(nearly, t)
    assert {2, 8} <= set(np.flatnonzero(fitted.relevant_) % 10), "body mass index and serum triglycerides"
    assert fitted.score(nearly, t) > 0.9 * model().fit(X, t).score(X, t)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("spread", [0.0, 1e-6])
def test_of_columns_that_are_equal_or_nearly_so_all_effects_are_kept(model, spread):
    X, t = data(300, 10, relevant=2, labels=model in CLASSIFIERS)
    rng = np.random.default_rng(1)
    copies = [X, -3 * X, *(X * (1 + spread * rng.standard_normal(X.shape)) for _ in range(4))]
    fitted = model().fit(np.hstack(copies), t)
    assert set(np.flatnonzero(fitted.relevant_) % 10) == {0, 1}
    single = model().fit(X, t)
    assert fitted.score(np.hstack(copies), t) == pytest.approx(single.score(X, t), abs=0.02)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_scores_of_regression_are_those_of_least_squares(divergence):
    """z^2 of one feature more, given the weights of the others, noise anew."""
    X, t = noisy(0, 50, 4, relevant=1)
    x = X / np.linalg.norm(X, axis=0)
    for fixed in (None, 0.7):
        problem = Regression(x, t, divergence, fixed)
        problem.use(np.arange(0), np.zeros(0), np.zeros(0))
        weight = x.T @ t
        noise = fixed or (t @ t - weight**2) / 50
        np.testing.assert_allclose(problem.scores(), weight**2 / noise)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_scores_of_classification_are_raos(divergence):
    X, t = noisy(0, 50, 4, relevant=1)
    t = (t > 0).astype(float)
    problem = Logistic(X, t, divergence, True, 32)
    problem.use(np.arange(0), np.zeros(0), np.zeros(0))
    problem.refit()
    p = t.mean()
    np.testing.assert_allclose(problem.scores(), (X.T @ (t - p)) ** 2 / (p * (1 - p) * (X**2).sum(0)), rtol=1e-5)


# far more features than objects


@pytest.mark.filterwarnings("ignore:none of 500 features")
@pytest.mark.parametrize("model", REGRESSORS)
def test_noise_is_not_explained_by_five_hundred_features(model):
    """Two of three such data sets used to leave some 25 features, and a noise variance of 0.02 in place of 1."""
    fits = [model().fit(*noisy(seed)) for seed in range(40)]
    kept = np.array([fitted.relevant_.sum() for fitted in fits])
    # z^2 > log 60 + 2 log 500, the noise estimated with 59 degrees of freedom: |t| > 4.03 with 58, for the best of 500
    chance = 1 - (1 - 2 * student.sf(4.03, 58)) ** 500
    assert (kept > 0).sum() <= binom.isf(1e-6, 40, chance) and kept.max() <= 3
    variances = [fitted.noise_variance_ for fitted, k in zip(fits, kept, strict=True) if k == 0]
    assert abs(np.mean(variances) - 59 / 60) < Z * np.sqrt(2 / 59 / len(variances))


@pytest.mark.parametrize("model", REGRESSORS)
def test_few_of_five_hundred_features_are_found(model):
    fits = [model().fit(*noisy(seed, relevant=2)) for seed in range(20)]
    assert all(fitted.relevant_[:2].all() for fitted in fits)
    assert np.sum([fitted.relevant_[2:].sum() for fitted in fits]) <= 20
    exact = [fitted.noise_variance_ for fitted in fits if fitted.relevant_.sum() == 2]
    assert abs(np.mean(exact) - 1) < Z * np.sqrt(2 / 57 / len(exact))


@pytest.mark.parametrize("model", REGRESSORS)
def test_more_features_left_than_the_objects_can_tell_is_said(model):
    with pytest.warns(SelectionWarning, match="features are left for 60 objects.*use threshold=ebic"):
        fitted = model(threshold=3.0).fit(*noisy(0))
    assert fitted.relevant_.sum() > 30


# weights


def repeated(X, t):
    """Every object none to two times, and how often."""
    times = np.random.default_rng(5).integers(0, 3, len(t))
    return np.repeat(X, times, axis=0), np.repeat(t, times), times


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("objects, features", [(200, 10), (60, 100)])
def test_a_weight_is_the_number_of_times_that_an_object_occurs(model, objects, features):
    X, t = data(objects, features, relevant=2, labels=model in CLASSIFIERS)
    many_X, many_t, times = repeated(X, t)
    weighted, plain = model(tol=1e-6).fit(X, t, sample_weight=times), model(tol=1e-6).fit(many_X, many_t)
    assert plain.relevant_.any()
    for name in ("coef_", "intercept_", "variance_", "log_alpha_", "mean_", "scale_", "threshold_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(plain, name), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(np.ravel(weighted.negative_elbo_)[-1], np.ravel(plain.negative_elbo_)[-1], rtol=1e-6)
    assert not np.allclose(model().fit(X, t).coef_, plain.coef_, rtol=1e-3)


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_class_weight_is_a_weight_of_objects(model):
    X, t = data(200, 10, relevant=2, labels=True)
    names = np.where(t, "yes", "no")
    keep = np.r_[np.flatnonzero(names == "no"), np.flatnonzero(names == "yes")[:25]]  # unequal classes
    X, names = X[keep], names[keep]
    by_class = model(class_weight={"yes": 3.0}).fit(X, names)
    by_object = model().fit(X, names, sample_weight=np.where(names == "yes", 3.0, 1.0))
    np.testing.assert_array_equal(by_class.coef_, by_object.coef_)
    balanced, plain = model(class_weight="balanced").fit(X, names), model().fit(X, names)
    assert plain.predict_proba(X)[:, 1].mean() == pytest.approx(25 / len(names), abs=0.02)
    weight = np.where(names == "yes", len(names) / 50, len(names) / (2 * (len(names) - 25)))
    assert np.average(balanced.predict_proba(X)[:, 1], weights=weight) == pytest.approx(0.5, abs=0.02)


# sparse data, names


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", [csr_matrix, csc_array], ids=lambda form: form.__name__)
def test_sparse_data_gives_what_dense_data_gives(model, form):
    X, t = data(200, 10, relevant=2, labels=model in CLASSIFIERS)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0
    dense, sparse = model().fit(X, t), model().fit(form(X), t)
    np.testing.assert_array_equal(sparse.coef_, dense.coef_)
    np.testing.assert_allclose(sparse.predict(form(X)), dense.predict(X))
    if model in REGRESSORS:
        np.testing.assert_allclose(sparse.predict(form(X), return_std=True), dense.predict(X, return_std=True))
    else:
        np.testing.assert_allclose(sparse.predict_proba(form(X)), dense.predict_proba(X))


@pytest.mark.parametrize("model", MODELS)
def test_names_of_the_relevant_features(model):
    X, t = data(300, 6, relevant=2, labels=model in CLASSIFIERS)
    fitted = model().fit(X, t)
    assert fitted.get_feature_names_out().tolist() == ["x0", "x1"]
    assert fitted.get_feature_names_out(list("abcdef")).tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="input_features"):
        fitted.get_feature_names_out(["a"])
    with pytest.raises(NotFittedError):
        model().get_feature_names_out()
