"""Layers that are linear in their weights but no matrix product or convolution of their input."""

from typing import Any

from torch import Tensor

from varnet.nn import lrt_fast as local
from varnet.nn.layers.base import Variational
from varnet.nn.lrt import EPS


class Direct(Variational):
    """A layer whose output is `apply(weight, bias, inputs)`. Its variance is the same of the variances of the weights
    and of the squared inputs, and noise is drawn for the output: exact for every number of it."""

    def apply_weights(self, weight: Tensor, bias: Tensor | None, *inputs: Tensor) -> Tensor:
        """The layer as torch has it, with these weights."""
        raise NotImplementedError

    def squared(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """What multiplies the variances of the weights."""
        raise NotImplementedError

    def product(self, *inputs_and_weight: Any, **options: Any) -> Tensor:
        *inputs, weight = inputs_and_weight
        return self.apply_weights(weight, self.bias, *inputs)

    def product_of_draw(self, *inputs_and_weight: Any, **options: Any) -> Tensor:
        return self.product(*inputs_and_weight)

    def sample(self, *inputs: Any, **options: Any) -> Tensor:
        return local.sample(*self.moments(*inputs), local.low_precision(inputs[0]))

    def moments(self, *inputs: Any, **options: Any) -> tuple[Tensor | None, Tensor]:
        kept = self.param.kept(self)
        mean, (std, alpha) = self._mean(kept), self._std_and_alpha(kept)
        variance = local.variance_of_weights(std, alpha)
        bias, of_bias = self.bias_moments()
        out = self.apply_weights(variance, of_bias, *self.squared(*inputs)) + EPS
        if mean is None:
            return None if bias is None else bias.expand(out.shape), out
        return self.apply_weights(mean, bias, *inputs), out
