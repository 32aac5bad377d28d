"""Any function of the user's as a likelihood: (outputs, targets) -> log p(target | outputs) of each object."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from varnet.nn.likelihoods.base import Likelihood


@dataclass(frozen=True)
class Given(Likelihood):
    """Of the targets nothing is known but what the function says: they are its own to check."""

    function: Callable[[Tensor, Tensor], Tensor]

    def log_prob(self, out: Tensor, target: Tensor) -> Tensor:
        values = self.function(out, target)
        if not isinstance(values, Tensor) or values.shape != (len(target),):
            found = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"type {type(values).__name__}"
            raise ValueError(
                f"the likelihood gives a value of {found} for {len(target)} objects: return log p(target | outputs) of "
                f"each of them, shape ({len(target)},)"
            )
        return values

    def check(self, out: Tensor, target: Tensor) -> None:
        """The function's own to do."""

    def check_type(self, target: Tensor) -> None:
        """The function's own to do, as well."""

    def check_values(self, target: Tensor) -> None:
        """The function's own to do, too."""
