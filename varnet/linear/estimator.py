"""What the estimators share: options, standardised features, weights in the user's units."""

import hashlib
import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight, check_is_fitted, validate_data

from varnet.base.checks import SWITCH, Check, number, or_null
from varnet.errors import ConfigError
from varnet.linear.alpha import HIGH, Divergence
from varnet.linear.descent import Problem, descend, limits_of

COUNT = Check(
    lambda v: isinstance(v, int | np.integer) and not isinstance(v, bool) and int(v) > 0, "a whole number from 1"
)
CHECKS = {
    "fit_intercept": SWITCH,
    "tol": number(0, above=True),
    "max_iter": COUNT,
    "n_nodes": COUNT,
    "noise_variance": or_null(number(0, above=True)),  # null: to be learnt
}


class SelectionWarning(UserWarning):
    """No feature is left, or more than the objects can tell from noise."""


def training_data(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, **options: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and weights as scikit-learn checks them: finite, numeric, one target and one weight for each object."""
    X, y = validate_data(estimator, X, y, dtype=np.float64, accept_sparse="csr", **options)
    y = y.astype(np.float64) if options.get("y_numeric") else y  # refuses strings
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ConfigError("has negative weights: use weights from 0", "sample_weight")
    used = weight > 0
    X = X if used.all() else X[used]
    return X.toarray() if issparse(X) else X, y[used], weight[used]


def new_data(estimator: BaseEstimator, X: Any) -> Any:
    """X for a fitted estimator, with the features it was fitted to; sparse if it is."""
    check_is_fitted(estimator)
    return validate_data(estimator, X, dtype=np.float64, accept_sparse="csr", reset=False)


def _fingerprint(column: np.ndarray) -> bytes:
    """The same for columns that are equal, up to rounding and the sign."""
    digits = np.round(column, 9)
    digits *= np.sign(digits[np.argmax(digits != 0)])
    return hashlib.blake2b((digits + 0.0).tobytes(), digest_size=16).digest()  # + 0.0: no -0.0


def dense(X: Any, features: np.ndarray) -> np.ndarray:
    """Some of the columns."""
    return X[:, features].toarray() if issparse(X) else X[:, features]


class LinearEstimator(BaseEstimator):
    """`sample_weight` of 2 is the same as the object twice, in everything that depends on the number of objects too.

    X may be sparse; it is made dense while the model is fitted, whose features are centred.
    """

    divergence: Divergence
    relevant_: np.ndarray

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the relevant features (x0, x1, ... where they have none)."""
        check_is_fitted(self)
        return _check_feature_names_in(self, input_features)[self.relevant_]

    def _check_options(self) -> None:
        options = self.get_params()
        for key in CHECKS.keys() & options.keys():
            CHECKS[key](key, options[key])

    def _standardise(self, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Mean 0 (with an intercept) and mean square 1: the models do not depend on the features' scales."""
        self.mean_ = np.average(X, axis=0, weights=weight) if self.fit_intercept else np.zeros(X.shape[1])
        x = X - self.mean_
        size = np.sqrt(np.average(np.square(x), axis=0, weights=weight))
        constant = size <= 1e-12 * np.abs(X).max(0, initial=0.0)  # what is left of it is rounding
        x[:, constant] = 0.0
        self.scale_ = np.where(constant, 1.0, size)
        return x / self.scale_

    def _distinct(self, x: np.ndarray) -> np.ndarray:
        """The features in use: of columns that are equal up to their sign the first, unless none may be dropped."""
        if self.threshold == np.inf:
            return np.arange(x.shape[1])
        first: dict[bytes, int] = {}
        for feature, column in enumerate(x.T):
            first.setdefault(_fingerprint(column), feature)
        return np.array(list(first.values()))

    def _descend(
        self, problem: Problem, objects: float, used: np.ndarray, features: int, forward: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]]:
        """Mean, variance and log alpha of the weights (0 and 0 if dropped), and the negative ELBO by iteration."""
        limits = limits_of(self.threshold, self.divergence, objects, len(used))
        self.threshold_ = limits.drop
        left, found, history = descend(problem, self.divergence, limits, forward, self.tol, self.max_iter)
        mu, variance, log_alpha = np.zeros(features), np.zeros(features), np.full(features, HIGH)
        mu[used[left]] = problem.mu
        variance[used[left]] = np.exp(problem.log_alpha) * problem.mu**2
        log_alpha[used] = found
        return mu, variance, log_alpha, history

    def _warn_of_nothing(self) -> None:
        if not self.relevant_.any():
            warnings.warn(
                f"none of {len(self.relevant_)} features is left, so that every prediction is the same: use more "
                f"objects or a threshold above {self.threshold_:.3g}",
                SelectionWarning,
                stacklevel=3,
            )

    def _warn_of_too_many(self, objects: float) -> None:
        kept = self.relevant_.sum()
        if len(self.relevant_) > objects and kept > objects / 2:
            warnings.warn(
                f"{kept} features are left for {objects:g} objects, many of which may be false, and the noise is "
                f"underestimated (threshold={self.threshold}): use threshold=ebic or give noise_variance",
                SelectionWarning,
                stacklevel=3,
            )
