"""What the estimators share: options, standardised features, weights in the user's units."""

import numbers

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from varnet.base.checks import SWITCH, Check, number, or_null
from varnet.linear.descent import Problem, descend, threshold_of

COUNT = Check(lambda v: isinstance(v, numbers.Integral) and not isinstance(v, bool) and v > 0, "a whole number from 1")
CHECKS = {
    "fit_intercept": SWITCH,
    "tol": number(0, above=True),
    "max_iter": COUNT,
    "n_nodes": COUNT,
    "noise_variance": or_null(number(0, above=True)),  # null: to be learnt
}


def training_data(estimator: BaseEstimator, X, y, **options) -> tuple[np.ndarray, np.ndarray]:
    """X and y as scikit-learn checks them: finite, numeric, as many targets as objects."""
    X, y = validate_data(estimator, X, y, dtype=np.float64, **options)
    return X, y.astype(np.float64) if options.get("y_numeric") else y  # refuses strings


def new_data(estimator: BaseEstimator, X) -> np.ndarray:
    """X for a fitted estimator, with the features it was fitted to."""
    check_is_fitted(estimator)
    return validate_data(estimator, X, dtype=np.float64, reset=False)


class LinearEstimator(BaseEstimator):
    def _check_options(self) -> None:
        options = self.get_params()
        for key in CHECKS.keys() & options.keys():
            CHECKS[key](key, options[key])

    def _standardise(self, X: np.ndarray) -> np.ndarray:
        """Mean 0 (with an intercept) and mean square 1: the models do not depend on the features' scales."""
        self.mean_ = X.mean(0) if self.fit_intercept else np.zeros(X.shape[1])
        x = X - self.mean_
        size = np.sqrt(np.square(x).mean(0))
        constant = size <= 1e-12 * np.abs(X).max(0, initial=0.0)  # what is left of it is rounding
        x[:, constant] = 0.0
        self.scale_ = np.where(constant, 1.0, size)
        return x / self.scale_

    def _descend(self, problem: Problem, objects: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]]:
        """Mean, variance and log alpha of the weights (0 and 0 if dropped), and the negative ELBO by iteration."""
        features = len(problem.mu)
        self.threshold_ = threshold_of(self.threshold, self.divergence, objects, features)
        left, log_alpha, history = descend(problem, self.threshold_, self.tol, self.max_iter)
        mu, variance = np.zeros(features), np.zeros(features)
        mu[left] = problem.mu
        variance[left] = np.exp(problem.log_alpha) * problem.mu**2
        return mu, variance, log_alpha, history
