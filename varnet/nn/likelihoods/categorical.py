"""One of several classes: softmax of the outputs."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from varnet.nn.likelihoods.base import Likelihood, of_objects


@dataclass(frozen=True)
class Categorical(Likelihood):
    """Classes 0 .. C - 1 as whole numbers (N,), logits (N, C)."""

    name = "categorical"
    classes: ClassVar[bool] = True

    def log_prob(self, out: Tensor, target: Tensor) -> Tensor:
        return -of_objects(F.cross_entropy(out, target.long(), reduction="none"))

    def nll(self, out: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(out, target.long())  # of every pixel, where each has a class

    def check(self, out: Tensor, target: Tensor) -> None:
        self.check_type(target)
        self.check_outputs(out)
        if out.dim() < 2 or out.shape[1] < 2:
            why = f"outputs {tuple(out.shape)} are no logits of two classes or more: use likelihood=bernoulli"
            raise self.unfit(target, why)
        if (out.shape[0], *out.shape[2:]) != tuple(target.shape):
            why = f"outputs have shape {tuple(out.shape)}: use one class for each object, (N,) for logits (N, C)"
            raise self.unfit(target, why)

    def check_type(self, target: Tensor) -> None:
        if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
            raise self.unfit(
                target, "it takes whole numbers of classes: use target.long(), or likelihood=gaussian or bernoulli"
            )

    def check_values(self, target: Tensor) -> None:
        if bool((target < 0).any()):
            raise self.unfit(target, f"there is a class {int(target.min())}: number them from 0")

    def error(self, out: Tensor, target: Tensor) -> Tensor:
        """Objects that are right."""
        return (out.argmax(1) == target).sum()

    def watched(self, error: float) -> dict[str, float]:
        return {"train_acc": 100 * error}

    def measures(self) -> tuple[str, ...]:
        return ("acc", "nll")


CATEGORICAL = Categorical()
