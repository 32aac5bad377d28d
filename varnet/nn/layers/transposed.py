"""A dense layer whose weights have the inputs first, as those of GPT-2 (transformers calls it Conv1D)."""

from typing import Any

import torch
from torch import Tensor

from varnet.nn.layers.base import Variational


class LinearTransposed(Variational):
    """A dense layer b = a W with weights of shape (inputs, outputs)."""

    output_axis = 1

    def take_shape(self, module: Any) -> None:
        self.in_features, self.out_features = self.weight_shape

    def check_input(self, x: Tensor) -> None:
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"{self} takes inputs of {self.in_features} features, but got shape {tuple(x.shape)}")

    def prepare(self, x: Tensor) -> tuple[Tensor, None]:
        return x, None

    def product(self, *inputs_and_weight: Any, **options: Any) -> Tensor:
        """With the operations of the layer that it replaces, whose digits it has."""
        x, weight = inputs_and_weight
        rows = x.reshape(-1, self.in_features)
        out = rows @ weight if self.bias is None else torch.addmm(self.bias, rows, weight)
        return out.view(*x.shape[:-1], self.out_features)

    def in_product(self, weights: Tensor) -> Tensor:
        return weights.t()

    def shape_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}"
