"""Noise in proportion to the mean, N(mu_ij, alpha mu_ij^2): variational dropout. They differ in who shares alpha."""

from typing import Any

import torch
from torch import Tensor, nn

from varnet.nn.params.base import Parameterization, as_parameter


class Multiplicative(Parameterization):
    """N(mu, alpha mu^2), alpha shared by as many weights as the subclass says."""

    multiplicative = True
    without = ("log_sigma", "learn")

    def alpha_shape(self, weight: Tensor) -> torch.Size:
        raise NotImplementedError

    def tensors(self, weight: Tensor) -> dict[str, Tensor]:
        log_alpha = self.start(self.alpha_shape(weight), weight)
        return {"mu": as_parameter(weight), "log_alpha": nn.Parameter(log_alpha)}

    def log_alpha_of(self, q: Any) -> Tensor:
        return self.clipped(q.log_alpha)

    def std(self, q: Any) -> Tensor:
        return (0.5 * self.log_alpha_of(q)).exp() * q.mu

    def variance(self, q: Any) -> Tensor:
        return self.log_alpha_of(q).exp() * q.mu.square()

    def std_and_alpha(self, q: Any) -> tuple[Tensor, Tensor | None]:
        return q.mu, self.clipped(q.log_alpha).exp()


class LayerWise(Multiplicative):
    """N(mu_ij, alpha mu_ij^2): one alpha per layer."""

    name = "layer"

    def alpha_shape(self, weight: Tensor) -> torch.Size:
        return torch.Size()


class NeuronWise(Multiplicative):
    """N(mu_ij, alpha_j mu_ij^2): one alpha per output unit or channel."""

    name = "neuron"

    def alpha_shape(self, weight: Tensor) -> torch.Size:
        return weight.shape[:1]

    def tensors_of(self, q: Any, weight: Tensor) -> dict[str, Tensor]:
        log_alpha = self.start(torch.Size([q.outputs]), weight)
        return {"mu": as_parameter(weight), "log_alpha": nn.Parameter(log_alpha)}

    def log_alpha_of(self, q: Any) -> Tensor:
        return q.spread(self.clipped(q.log_alpha))


class WeightWise(Multiplicative):
    """N(mu_ij, alpha_ij mu_ij^2): one alpha per weight."""

    name = "weight"
    alpha_per_weight = True

    def alpha_shape(self, weight: Tensor) -> torch.Size:
        return weight.shape

    def std_and_alpha(self, q: Any) -> tuple[Tensor, Tensor | None]:
        return self.std(q), None
