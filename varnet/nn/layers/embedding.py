"""A table of random vectors."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from varnet.nn.layers.base import factory
from varnet.nn.layers.direct import Direct
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior


class Embedding(Direct, replaces=nn.Embedding):
    """nn.Embedding with random vectors: every look-up draws a vector of its own from the distribution of that row.
    param=neuron has one alpha for each row. The row of `padding_idx` has no noise, as it has no gradient."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        module = nn.Embedding(num_embeddings, embedding_dim, padding_idx, **factory(options))
        self._adopt(module, param, prior, options)

    @classmethod
    def unfit(cls, module: Any) -> str | None:
        if module.max_norm is not None:
            return "max_norm changes its weights whenever it is called"
        return "its gradient is sparse or scaled by frequency" if module.sparse or module.scale_grad_by_freq else None

    def take_shape(self, module: Any) -> None:
        self.num_embeddings, self.embedding_dim = module.num_embeddings, module.embedding_dim
        self.padding_idx = module.padding_idx

    def check_input(self, x: Tensor) -> None:
        if x.is_floating_point():
            raise ValueError(f"{self} takes whole numbers, but got {x.dtype}")

    def apply_weights(self, weight: Tensor, bias: Tensor | None, *inputs: Tensor) -> Tensor:
        return F.embedding(inputs[0], weight, self.padding_idx)

    def squared(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return inputs

    def new_noise(self) -> Tensor:
        return self._without_padding(super().new_noise())

    def _std(self, kept: Tensor | None = None) -> Tensor:
        return self._without_padding(super()._std(kept))

    def _std_and_alpha(self, kept: Tensor | None) -> tuple[Tensor, Tensor | None]:
        std, alpha = super()._std_and_alpha(kept)
        return self._without_padding(std), alpha

    def _without_padding(self, rows: Tensor) -> Tensor:
        if self.padding_idx is None:
            return rows
        keep = rows.new_ones(len(rows), 1)
        keep[self.padding_idx] = 0
        return rows * keep

    def shape_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
