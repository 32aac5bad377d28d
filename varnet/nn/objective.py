"""The objective: the negative ELBO, -N * mean log-likelihood + beta * KL (paper eq. 5, with cross-entropy).

KL is positive everywhere in varnet, and the loss that is minimised is the negative ELBO.
"""

import torch
from torch import Tensor, nn

from varnet.errors import ConfigError
from varnet.nn.layers import layers_of
from varnet.nn.likelihoods import CATEGORICAL, Likelihood, LikelihoodLike, likelihood_of
from varnet.nn.tying import distinct


def kl(model: nn.Module) -> Tensor:
    """KL(q || p), summed over all weights of all variational layers; 0 for a model without any.

    A posterior that several layers share, as tied weights do, counts once.
    """
    terms = [layer.kl() for layer in distinct(layers_of(model).values())]
    return torch.stack(terms).sum() if terms else next(model.parameters(), torch.zeros(())).new_zeros(())


def terms(
    model: nn.Module, logits: Tensor, target: Tensor, likelihood: Likelihood = CATEGORICAL
) -> tuple[Tensor, Tensor]:
    """Mean negative log-likelihood of a mini-batch (for classes the cross-entropy), in float32 at least because N times
    it overflows float16, and the KL."""
    if len(target) == 0:
        raise ValueError("the batch is empty, and has no mean cross-entropy: give one of at least one object")
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    likelihood.check(logits, target)
    return likelihood.nll(logits, target), kl(model)


def negative_elbo(
    model: nn.Module,
    logits: Tensor,
    target: Tensor,
    data_size: int,
    beta: float | Tensor = 1.0,
    likelihood: LikelihoodLike = "categorical",
) -> Tensor:
    """One-sample estimate from a mini-batch of a training set of `data_size` objects.

    logits      outputs of the model: logits of the classes, means of targets, log rates, as the likelihood takes them
    likelihood  categorical, bernoulli, gaussian or poisson; an object such as varnet.Gaussian(variance=0.1); or any
                function (outputs, targets) -> log p(target | outputs) of each object, shape (N,)

    A target that does not fit is refused: by shape and type on every device, by its values on a CPU alone, as a look at
    them would make the host wait for a GPU.
    """
    if not data_size >= 1:
        raise ConfigError("is invalid: use the number of training objects, 1 or more", "data_size", data_size)
    chosen = likelihood_of(likelihood)
    if target.device.type == "cpu" and not chosen.classes and len(target):  # cross-entropy looks at classes itself
        chosen.check(logits, target)
        chosen.check_values(target)
    data_loss, divergence = terms(model, logits, target, chosen)
    return data_size * data_loss + beta * divergence
