"""What a prior is: KL(q || p) per weight, positive, from the moments of q (paper section 4.2, appendix F).

With alpha = variance / mean^2, the log-uniform and ARD divergences depend on alpha only and vanish as alpha grows. A
prior sums its KL over the weights of a layer; it never averages.
"""

import math
from dataclasses import dataclass
from typing import Any

from torch import Size, Tensor

from varnet.errors import ConfigError
from varnet.nn.params import Parameterization
from varnet.nn.registry import Registry, check_options

C = (0.5772156649015329 + math.log(2)) / 2  # -E log|eps|, so that the log-uniform KL -> 0 as alpha -> infinity


@dataclass(frozen=True)
class Prior:
    """A prior owns no tensors, but may give a layer some to learn. Its options are the fields of its class."""

    name = ""  # in configurations; a class that has one is registered
    of_alpha = False  # the KL depends on alpha alone and is 0 for infinite alpha

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        PRIORS.add(cls)

    def __post_init__(self) -> None:
        check_options(self)

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        """What a layer with this weight learns beside q; nn.Parameter unless it stays fixed."""
        return {}

    def check(self, param: Parameterization) -> None:
        """Refuse a parameterization that the KL is not defined for."""
        if param.noise != "gaussian" and not self.of_alpha:
            raise ConfigError(
                f"has no KL for noise={param.noise}, which is not Gaussian: use prior=loguniform, ard or none, "
                "whose KL does not depend on the scale",
                "prior",
                self.name,
            )

    def kl(self, param: Parameterization, q: Any, shape: Size) -> Tensor:
        """KL of one layer: the sum over its weights of the given shape."""
        if param.deterministic or (param.zero_mean and self.of_alpha):
            # A point estimate has no KL; that of a zero-mean q does not depend on its scale (appendix F).
            return param.std(q).new_zeros(())
        values = self.values(param, q, shape)
        return values.sum() * (shape.numel() / values.numel())

    def values(self, param: Parameterization, q: Any, shape: Size) -> Tensor:
        """KL per weight, in a shape that broadcasts to the weights': weights that share alpha share the work."""
        raise NotImplementedError


PRIORS: Registry[Prior] = Registry("prior")
