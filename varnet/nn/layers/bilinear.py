"""A bilinear layer."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from varnet.nn.layers.base import factory
from varnet.nn.layers.direct import Direct
from varnet.nn.lrt_fast import low_precision
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior


class Bilinear(Direct, replaces=nn.Bilinear):
    """nn.Bilinear with random weights: b_k = sum_ij x_i w_kij y_j + bias."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        module = nn.Bilinear(in1_features, in2_features, out_features, bias, **factory(options))
        self._adopt(module, param, prior, options)

    def take_shape(self, module: Any) -> None:
        self.in1_features, self.in2_features = module.in1_features, module.in2_features
        self.out_features = module.out_features

    def check_input(self, x: Tensor, y: Tensor) -> None:
        if (x.shape[-1:], y.shape[-1:]) != ((self.in1_features,), (self.in2_features,)):
            wanted = f"inputs of {self.in1_features} and {self.in2_features} features"
            raise ValueError(f"{self} takes {wanted}, but got shapes {tuple(x.shape)} and {tuple(y.shape)}")

    def apply_weights(self, weight: Tensor, bias: Tensor | None, *inputs: Tensor) -> Tensor:
        x, y = inputs
        return F.bilinear(x, y, weight, bias)

    def squared(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        wide = [x.float() if low_precision(x) is not None else x for x in inputs]
        return tuple(x.square() for x in wide)

    def shape_repr(self) -> str:
        return f"{self.in1_features}, {self.in2_features}, {self.out_features}"
