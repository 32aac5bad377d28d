"""Labels that an object has or has not, several of them: a sigmoid for each output."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from varnet.nn.likelihoods.base import Likelihood, of_objects


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """0 or 1 for each label (or a probability), logits of the same shape."""

    name = "bernoulli"

    def log_prob(self, out: Tensor, target: Tensor) -> Tensor:
        return -of_objects(F.binary_cross_entropy_with_logits(out, target.to(out.dtype), reduction="none"))

    def mean_of(self, out: Tensor) -> Tensor:
        return out.sigmoid()

    def variance_of(self, out: Tensor) -> Tensor:
        return out.sigmoid() * (-out).sigmoid()

    def check_type(self, target: Tensor) -> None:
        """Of any type: the values say it."""

    def check_values(self, target: Tensor) -> None:
        if not bool(((target >= 0) & (target <= 1)).all()):
            raise self.unfit(target, "some values are not in [0, 1]: use 0 and 1, or likelihood=gaussian or poisson")

    def error(self, out: Tensor, target: Tensor) -> Tensor:
        """Labels that are right, as a part of each object's."""
        return ((out > 0) == (target > 0.5)).to(out.dtype).flatten(1).mean(1).sum()

    def watched(self, error: float) -> dict[str, float]:
        return {"train_acc": 100 * error}

    def measures(self) -> tuple[str, ...]:
        return ("acc", "nll", "brier", "ece")
