"""A dense layer."""

from typing import Any

from torch import Tensor, nn

from varnet.nn.layers.base import Variational, factory
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior


class Linear(Variational, replaces=nn.Linear):
    """nn.Linear with random weights."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> None:
        self._adopt(nn.Linear(in_features, out_features, bias, **factory(options)), param, prior, options)

    def take_shape(self, module: Any) -> None:
        self.out_features, self.in_features = self.weight_shape

    def check_input(self, x: Tensor) -> None:
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"{self} takes inputs of {self.in_features} features, but got shape {tuple(x.shape)}")

    def prepare(self, x: Tensor) -> tuple[Tensor, None]:
        return x, None

    def shape_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}"
