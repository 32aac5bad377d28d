"""Linear regression: t = w'x + noise, q(w_d) = N(mu_d, alpha_d mu_d^2); every update is exact.

The negative ELBO (slides, "Variational Dropout: linear regression"), s2 the variance of the noise,

    N/2 log(2 pi s2) + (|X mu - t|^2 + sum_d alpha_d mu_d^2 sum_n x_nd^2) / (2 s2) + sum_d KL(alpha_d)

is minimised over alpha, mu and s2 in turn, so that it never rises.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from varnet.linear import descent
from varnet.linear.alpha import ARD, Divergence, LogUniform
from varnet.linear.estimator import LinearEstimator, dense, new_data, training_data


class Regression:
    """The columns of x have length 1, so that kappa = alpha and the noise is a weight's standard error."""

    mu: np.ndarray
    noise_variance: float

    def __init__(
        self,
        x: np.ndarray,
        t: np.ndarray,
        divergence: Divergence,
        noise_variance: float | None = None,
        objects: float | None = None,
    ):
        """objects: how many there are, where rows are weighted by the square root of how often each occurs."""
        self.every, self.t, self.divergence, self.fixed = x, t, divergence, noise_variance
        self.objects = len(t) if objects is None else objects
        self.floor = 1e-12 * t @ t / self.objects + np.finfo(float).tiny  # of the noise, where the data has none
        self.use(np.arange(x.shape[1]), np.zeros(x.shape[1]), np.zeros(x.shape[1]))

    def step(self) -> float:
        old = self.mu
        self.log_alpha = self.divergence.best(self.mu**2 / (2 * self.noise_variance))
        self._update_mu()
        self._update_noise()
        error = np.sqrt(self.noise_variance) + 1e-6 * np.abs(self.mu).max(initial=0.0)
        return np.abs(self.mu - old).max(initial=0.0) / error

    def use(self, features: np.ndarray, mu: np.ndarray, log_alpha: np.ndarray) -> None:
        """Every update is exact, so that the weights need no start."""
        self.x, self.log_alpha = self.every[:, features], log_alpha
        self._products()
        self.refit()

    def refit(self) -> None:
        self._update_mu()
        self._update_noise()

    def scores(self) -> np.ndarray:
        explained = np.square(self.every.T @ (self.t - self.x @ self.mu))
        if self.fixed:
            return explained / self.fixed
        return explained / np.maximum((self._error() - explained) / self.objects, self.floor)

    def negative_elbo(self) -> float:
        fit = self._error() / self.noise_variance + self.objects * np.log(2 * np.pi * self.noise_variance)
        return fit / 2 + self.divergence.kl(self.log_alpha).sum()

    def _products(self) -> None:
        """What an update needs of x, once for all steps."""
        self.gram = self.x.T @ self.x if self.x.shape[1] <= len(self.x) else None
        self.moment = self.x.T @ self.t

    def _update_mu(self) -> None:
        alpha = np.exp(self.log_alpha)
        if self.gram is None:
            self.mu = descent.ridge(self.x, self.t, alpha)
        else:
            self.mu = descent.solve_gram(self.gram, self.moment, alpha)

    def _update_noise(self) -> None:
        self.noise_variance = self.fixed or max(self._error() / self.objects, self.floor)

    def _error(self) -> float:
        """E |x w - t|^2"""
        residual = self.t - self.x @ self.mu
        return residual @ residual + np.exp(self.log_alpha) @ self.mu**2


class VDRegressor(RegressorMixin, LinearEstimator):
    """Variational dropout for linear regression (VD-RVR): log-uniform prior, one dropout rate per feature.

    Parameters: `threshold`, the log alpha above which a feature is irrelevant and its weight 0 (infinity: none, "ebic":
    by the sizes of the data, see descent.threshold_of); `noise_variance`, None to learn it; `fit_intercept`; `tol`, the
    change of the weights, in standard errors, that ends the iteration; `max_iter`.

    With more features than objects, where all of them together leave no noise, "ebic" begins with none of them.

    Attributes: `coef_`, `intercept_`, `log_alpha_`, `variance_` (of the weights), `relevant_` (a mask),
    `noise_variance_`, `negative_elbo_` (by iteration), `n_iter_`, `threshold_`.
    """

    divergence: Divergence = LogUniform()

    def __init__(
        self,
        *,
        threshold: float | str = "ebic",
        noise_variance: float | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int = 1000,
    ):
        self.threshold = threshold
        self.noise_variance = noise_variance
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "VDRegressor":
        self._check_options()
        X, y, weight = training_data(self, X, y, sample_weight, y_numeric=True)
        objects = weight.sum()
        center = np.average(y, weights=weight) if self.fit_intercept else 0.0
        root = np.sqrt(weight)
        x = self._standardise(X, weight)
        used = self._distinct(x)
        x = x[:, used] * (root / np.sqrt(objects))[:, None]
        problem = Regression(x, root * (y - center), self.divergence, self.noise_variance, objects)
        forward = x.shape[1] > objects and self.threshold == "ebic"
        mu, variance, self.log_alpha_, history = self._descend(problem, objects, used, X.shape[1], forward)
        scale = self.scale_ * np.sqrt(objects)
        self.coef_, self.variance_ = mu / scale, variance / scale**2
        self.intercept_ = float(center - self.coef_ @ self.mean_)
        self.noise_variance_ = float(problem.noise_variance)
        self.relevant_ = self.coef_ != 0
        self.negative_elbo_, self.n_iter_ = history, len(history)
        self._warn_of_nothing()
        if self.noise_variance is None:
            self._warn_of_too_many(objects)
        return self

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of the target and, if asked, its standard deviation: that of the noise and of the weights."""
        X = new_data(self, X)
        mean = X @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        variance = np.square(dense(X, self.relevant_) - self.mean_[self.relevant_]) @ self.variance_[self.relevant_]
        return mean, np.sqrt(variance + self.noise_variance_)


class GKLRegressor(VDRegressor):
    """Gaussian KL (G-KL RVR): VDRegressor with the best Gaussian prior of each weight, KL = log(1 + 1/alpha) / 2."""

    divergence: Divergence = ARD()
