"""Logistic regression: p(t = 1 | x, w) = sigmoid(w'x + b), q(w_d) = N(mu_d, alpha_d mu_d^2).

w'x is Gaussian with mean m = x'mu + b and variance s^2 = sum_d x_d^2 alpha_d mu_d^2, so that the negative ELBO (slides,
"Variational Dropout: logistic regression") needs integrals in one dimension only, by Gauss-Hermite quadrature. Its
gradients too: in m it is E d(log p), in s^2 half of E d^2(log p) = -h. So a Newton step for mu is the regression with
weights h_n and kappa_d = alpha_d sum_n h_n x_nd^2. No step raises the negative ELBO.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, logsumexp, roots_hermitenorm, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from varnet.base.checks import number
from varnet.errors import ConfigError
from varnet.linear.alpha import ARD, Divergence, LogUniform
from varnet.linear.descent import ridge
from varnet.linear.estimator import LinearEstimator, dense, new_data, training_data

WEIGHT = number(0, above=True)
HALVINGS = 20  # of a step that does not lower the loss


class Logistic:
    """Two classes, t in {0, 1}; the columns of x have mean square 1."""

    def __init__(
        self,
        x: np.ndarray,
        t: np.ndarray,
        divergence: Divergence,
        fit_intercept: bool,
        n_nodes: int,
        weight: np.ndarray | None = None,
    ):
        """weight: how often each object occurs."""
        self.every, self.x, self.x2, self.t = x, x, x**2, t
        self.divergence, self.fit_intercept = divergence, fit_intercept
        self.weight = np.ones(len(t)) if weight is None else weight
        self.quadrature = normal_nodes(n_nodes)
        self.log_alpha = np.zeros(x.shape[1])
        self.mu, self.bias = np.zeros(x.shape[1]), 0.0
        self._evaluate()
        self._update_mu()

    def step(self) -> float:
        old = self.mu
        self._update_alpha()
        self._update_mu()
        error = 1 / np.sqrt(self.precision + 1e-12) + 1e-6 * np.abs(self.mu).max(initial=0.0)
        return (np.abs(self.mu - old) / error).max(initial=0.0)

    def use(self, features: np.ndarray, mu: np.ndarray, log_alpha: np.ndarray) -> None:
        self.x, self.mu, self.log_alpha = self.every[:, features], mu, log_alpha
        self.x2 = self.x**2
        self._evaluate()

    def refit(self) -> None:
        self._update_mu()

    def scores(self) -> np.ndarray:
        """Rao's score test."""
        precision = np.einsum("n,nd,nd->d", self.weight * self.curvature, self.every, self.every)
        return np.square((self.weight * self.gradient) @ self.every) / np.maximum(precision, 1e-12)

    def negative_elbo(self) -> float:
        return self.loss

    def _evaluate(self) -> None:
        """The negative ELBO and, for every object, E d(log p) and -E d^2(log p)."""
        self.mean = self.x @ self.mu + self.bias
        std = np.sqrt(self.x2 @ (np.exp(self.log_alpha) * self.mu**2))
        nodes, weights = self.quadrature
        logits = self.mean[:, None] + std[:, None] * nodes
        p = expit(logits)
        self.gradient = self.t - p @ weights
        self.curvature = np.maximum((p * (1 - p)) @ weights, 1e-12)
        # h once more, now E (p - t) eps / s: the derivative in s^2 of the sum itself, not only of the integral
        in_variance = np.where(std > 1e-4, p @ (weights * nodes) / np.maximum(std, 1e-4), self.curvature)
        self.precision = (self.weight * np.maximum(in_variance, 1e-12)) @ self.x2
        wrong = np.where(self.t[:, None] == 1, -logits, logits)
        self.loss = self.weight @ (np.logaddexp(0, wrong) @ weights) + self.divergence.kl(self.log_alpha).sum()

    def _update_alpha(self) -> None:
        """The best alpha if the curvature stayed as it is; half the way, and so on, if that does not help."""
        self._move(log_alpha=self.divergence.best(self.precision * self.mu**2 / 2))

    def _update_mu(self) -> None:
        """A Newton step: for a given alpha the loss is convex in mu and the bias."""
        h = (self.weight * self.curvature)[:, None]
        target = self.mean + self.gradient / self.curvature
        x_mean = (h * self.x).sum(0) / h.sum() * self.fit_intercept
        target_mean = h[:, 0] @ target / h.sum() * self.fit_intercept
        root = np.sqrt(h)
        kappa = np.maximum(np.exp(self.log_alpha) * self.precision, 1e-12)
        kappa[self.precision == 0] = 1.0  # a constant feature, now 0: any kappa gives it the weight 0
        mu = ridge(root * (self.x - x_mean), root[:, 0] * (target - target_mean), kappa)
        self._move(mu=mu, bias=target_mean - x_mean @ mu)

    def _move(self, **target: Any) -> None:
        """Towards the target as far as it lowers the loss: all the way, half of it, and so on."""
        old, loss, fraction = {key: getattr(self, key) for key in target}, self.loss, 1.0
        for _ in range(HALVINGS):
            for key, value in target.items():
                setattr(self, key, old[key] + fraction * (value - old[key]))
            self._evaluate()
            if self.loss <= loss:
                return
            fraction /= 2
        for key, value in old.items():
            setattr(self, key, value)
        self._evaluate()


def normal_nodes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Hermite nodes and weights of the standard normal distribution, without those that underflow (n > 200)."""
    nodes, weights = roots_hermitenorm(n)
    used = weights > 1e-100
    return nodes[used], weights[used] / weights[used].sum()


class VDClassifier(ClassifierMixin, LinearEstimator):
    """Variational dropout for logistic regression (VD-RVC): log-uniform prior; one-vs-rest for more than two classes.

    Parameters: `threshold`, the log alpha above which a feature is irrelevant and its weight 0 (infinity: none, "ebic":
    by the sizes of the data, see descent.threshold_of); `fit_intercept`; `n_nodes` of the quadrature; `tol`, the change
    of the weights, in standard errors, that ends the iteration; `max_iter`; `class_weight`, None, "balanced" or {class:
    weight}.

    Attributes, a row for each class (one row for two classes): `coef_`, `intercept_`, `log_alpha_`, `variance_`; also
    `relevant_` (a mask: to any class), `negative_elbo_` (by iteration, a list for each row), `n_iter_`, `threshold_`.
    """

    divergence: Divergence = LogUniform()

    def __init__(
        self,
        *,
        threshold: float | str = "ebic",
        fit_intercept: bool = True,
        n_nodes: int = 32,
        tol: float = 1e-3,
        max_iter: int = 1000,
        class_weight: Mapping | str | None = None,
    ):
        self.threshold = threshold
        self.fit_intercept = fit_intercept
        self.n_nodes = n_nodes
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "VDClassifier":
        self._check_options()
        X, y, weight = training_data(self, X, y, sample_weight)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ConfigError(f"has one class, {self.classes_[0]}: a classifier needs at least two", "y")
        weight = weight * self._class_weights(labels, weight)[labels]
        x = self._standardise(X, weight)
        positive = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        used = self._distinct(x)
        fits = [self._fit_one(x, used, (labels == k).astype(float), weight) for k in positive]
        mu, bias, variance, log_alpha, self.negative_elbo_ = zip(*fits, strict=True)
        self.coef_ = np.array(mu) / self.scale_
        self.variance_ = np.array(variance) / self.scale_**2
        self.log_alpha_ = np.array(log_alpha)
        self.intercept_ = np.array(bias) - self.coef_ @ self.mean_
        self.relevant_ = (self.coef_ != 0).any(0)
        self.n_iter_ = max(map(len, self.negative_elbo_))
        self._warn_of_nothing()
        return self

    def _class_weights(self, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """One for each class; balanced: all classes weigh the same, and together as much as without."""
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            return weight.sum() / (len(self.classes_) * np.bincount(labels, weight))
        if not isinstance(self.class_weight, Mapping) or not all(map(WEIGHT.fits, self.class_weight.values())):
            raise ConfigError(
                f"is invalid: use balanced, null, or {{class: {WEIGHT.wanted}}}", "class_weight", self.class_weight
            )
        names = self.classes_.tolist()
        if unknown := [name for name in self.class_weight if name not in names]:
            raise ConfigError(f"names no class of y: choose from {names}", "class_weight", unknown[0])
        return np.array([self.class_weight.get(name, 1.0) for name in names], float)

    def _fit_one(self, x: np.ndarray, used: np.ndarray, t: np.ndarray, weight: np.ndarray) -> tuple:
        problem = Logistic(x[:, used], t, self.divergence, self.fit_intercept, self.n_nodes, weight)
        mu, variance, log_alpha, history = self._descend(problem, weight.sum(), used, x.shape[1])
        return mu, problem.bias, variance, log_alpha, history

    def decision_function(self, X: Any) -> np.ndarray:
        """The log odds of E sigmoid(w'x + b), a column for each class; one number per object for two classes."""
        log_p, log_not_p = self._log_probability(X)
        odds = log_p - log_not_p
        return odds[:, 0] if len(self.classes_) == 2 else odds

    def predict_proba(self, X: Any) -> np.ndarray:
        """E sigmoid(w'x + b) over q; for more than two classes divided by their sum."""
        log_p, log_not_p = self._log_probability(X)
        if len(self.classes_) == 2:
            return np.exp(np.hstack([log_not_p, log_p]))
        return softmax(log_p, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def _log_probability(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """log E sigmoid(w'x + b) and log E sigmoid(-w'x - b), objects x rows, which keep their digits near 0 and 1."""
        X = dense(new_data(self, X), self.relevant_)
        mean = X @ self.coef_[:, self.relevant_].T + self.intercept_
        std = np.sqrt(np.square(X - self.mean_[self.relevant_]) @ self.variance_[:, self.relevant_].T)
        nodes, weights = normal_nodes(self.n_nodes)
        logits = mean[..., None] + std[..., None] * nodes
        log_p, log_not_p = (logsumexp(log_expit(sign * logits), axis=-1, b=weights) for sign in (1, -1))
        return log_p, log_not_p


class GKLClassifier(VDClassifier):
    """Gaussian KL (G-KL RVC): VDClassifier with the best Gaussian prior of each weight, KL = log(1 + 1/alpha) / 2."""

    divergence: Divergence = ARD()
