"""The objective: the negative ELBO, N * mean cross-entropy + beta * KL (paper eq. 5).

KL is positive everywhere in varnet, and the loss that is minimised is the negative ELBO.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varnet.errors import ConfigError
from varnet.nn.layers import layers_of
from varnet.nn.tying import distinct


def kl(model: nn.Module) -> Tensor:
    """KL(q || p), summed over all weights of all variational layers; 0 for a model without any.

    A posterior that several layers share, as tied weights do, counts once.
    """
    terms = [layer.kl() for layer in distinct(layers_of(model).values())]
    return torch.stack(terms).sum() if terms else next(model.parameters(), torch.zeros(())).new_zeros(())


def terms(model: nn.Module, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of a mini-batch, in float32 at least because N times it overflows float16, and the KL."""
    if len(target) == 0:
        raise ValueError("the batch is empty, and has no mean cross-entropy: give one of at least one object")
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return F.cross_entropy(logits, target), kl(model)


def negative_elbo(
    model: nn.Module, logits: Tensor, target: Tensor, data_size: int, beta: float | Tensor = 1.0
) -> Tensor:
    """One-sample estimate from a mini-batch of a training set of `data_size` objects."""
    if not data_size >= 1:
        raise ConfigError("is invalid: use the number of training objects, 1 or more", "data_size", data_size)
    cross_entropy, divergence = terms(model, logits, target)
    return data_size * cross_entropy + beta * divergence
