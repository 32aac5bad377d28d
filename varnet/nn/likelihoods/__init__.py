"""Likelihoods p(target | outputs), a file each. A new one is a class with a `name` in a file of this folder, and a YAML
in configs/likelihood/.

>>> sorted(LIKELIHOODS)
['bernoulli', 'categorical', 'gaussian', 'poisson']
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from varnet.errors import ConfigError
from varnet.nn.likelihoods.base import LIKELIHOODS, Likelihood
from varnet.nn.likelihoods.bernoulli import Bernoulli
from varnet.nn.likelihoods.categorical import CATEGORICAL, Categorical
from varnet.nn.likelihoods.gaussian import Gaussian, LearnedVariance
from varnet.nn.likelihoods.given import Given
from varnet.nn.likelihoods.poisson import Poisson
from varnet.nn.likelihoods.standardised import Standardised, standardised
from varnet.nn.registry import import_all, option, options_of

__all__ = [
    "CATEGORICAL", "LIKELIHOODS", "Bernoulli", "Categorical", "Gaussian", "Given", "LearnedVariance", "Likelihood",
    "LikelihoodLike", "Poisson", "Standardised", "likelihood_of", "option", "standardised",
]  # fmt: skip
import_all(__name__, __path__)
LikelihoodLike = str | Likelihood | Callable[[Tensor, Tensor], Tensor]


def likelihood_of(given: LikelihoodLike, **options: Any) -> Likelihood:
    """A likelihood by its name and options, as it is, or of a function (outputs, targets) -> log p of each object."""
    kind: object = given  # which may be a class
    if isinstance(kind, type) and issubclass(kind, Likelihood):
        return kind(**options)
    if isinstance(given, Likelihood) or (callable(given) and not isinstance(given, str)):
        if options:
            raise ConfigError(f"has its options: give {', '.join(options)} with a name", "likelihood", given)
        return given if isinstance(given, Likelihood) else Given(given)
    own = options_of(LIKELIHOODS.find(given))
    for key, value in options.items():
        if key not in own and value is not None:
            known = ", ".join(own) or "none"
            raise ConfigError(f"is no option of likelihood={given} (it has: {known}): leave it out", key, value)
    return LIKELIHOODS.make(given, {key: value for key, value in options.items() if key in own})
