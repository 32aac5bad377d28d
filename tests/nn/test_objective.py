"""The ELBO: its parts, and its gradient on a model small enough for quadrature."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.statistics_helper import assert_mean
from varnet import kl, negative_elbo, variational
from varnet.nn.layers import Linear
from varnet.nn.priors import loguniform


def test_kl_sums_over_layers_and_counts_a_shared_layer_once():
    layer = Linear(5, 5, log_alpha=-2.0)
    model = nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(5, 3), Linear(5, 2, param="weight", log_alpha=-2.0))
    torch.testing.assert_close(kl(model), layer.kl() + model[4].kl())
    torch.testing.assert_close(kl(model).item(), 35 * kl(Linear(1, 1, log_alpha=-2.0)).item(), rtol=1e-5, atol=0)


def test_kl_without_variational_layers():
    assert kl(nn.Linear(3, 2)) == 0
    assert kl(nn.ReLU()) == 0


def test_negative_elbo():
    model = variational(nn.Linear(4, 3))
    logits, target = torch.randn(8, 4) @ torch.randn(4, 3), torch.randint(3, (8,))
    expected = 100 * F.cross_entropy(logits, target) + 0.5 * kl(model)
    torch.testing.assert_close(negative_elbo(model, logits, target, 100, beta=0.5), expected)
    torch.testing.assert_close(
        negative_elbo(model, logits, target, 100, beta=0.0), 100 * F.cross_entropy(logits, target)
    )
    with pytest.raises(ValueError, match="data_size=0 is invalid: use the number of training objects"):
        negative_elbo(model, logits, target, 0)


def test_low_precision_logits_and_empty_batches():
    model = variational(nn.Linear(4, 3))
    logits, target = torch.randn(8, 3), torch.randint(3, (8,))
    full = negative_elbo(model, logits, target, 60_000)
    torch.testing.assert_close(negative_elbo(model, logits.half(), target, 60_000), full, rtol=2e-3, atol=0)
    with pytest.raises(ValueError, match="the batch is empty"):
        negative_elbo(model, logits[:0], target[:0], 10)


X = torch.tensor([[0.8, -1.1], [1.5, 0.4], [-0.6, 0.9]], dtype=torch.double)
T = torch.tensor([1, 0, 1])


def quadrature_elbo(mu: np.ndarray, log_alpha: float) -> float:
    """Negative ELBO of logits (0, x w), w ~ N(mu, alpha mu^2): x w is Gaussian, one Gauss-Hermite sum per object."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    x = X.numpy()
    mean, std = x @ mu, np.sqrt((x**2) @ (math.exp(log_alpha) * mu**2))
    logit = mean[:, None] + std[:, None] * nodes
    signed = np.where(T.numpy()[:, None] == 1, logit, -logit)
    data = (np.logaddexp(0, -signed) * weights).sum(1) / weights.sum()
    return data.sum() + 2 * _exact_kl(log_alpha)


def _exact_kl(log_alpha: float) -> float:
    return loguniform.exact(torch.tensor(log_alpha, dtype=torch.double)).item()


def finite_differences(mu: np.ndarray, log_alpha: float, h: float = 1e-5) -> torch.Tensor:
    point = np.append(mu, log_alpha)
    steps = np.eye(3) * h
    return torch.tensor(
        [
            (quadrature_elbo((point + s)[:2], (point + s)[2]) - quadrature_elbo((point - s)[:2], (point - s)[2]))
            / (2 * h)
            for s in steps
        ]
    )


@pytest.mark.parametrize("log_alpha", [-3.0, 0.5, 3.0])
def test_gradient_is_unbiased(log_alpha):
    mu = np.array([0.7, -0.4])
    layer = Linear(2, 1, bias=False, param="layer", estimator="exact", log_alpha=log_alpha, dtype=torch.double)
    layer.mu.data.copy_(torch.from_numpy(mu)[None])
    n = 20_000
    # One backward pass for n independent noise samples: copies of the layer's parameters, one for each.
    values = {"mu": layer.mu.detach().expand(n, 1, 2), "log_alpha": layer.log_alpha.detach().expand(n)}

    def loss(values):
        logit = torch.func.functional_call(layer, values, (X,))
        logits = torch.cat([torch.zeros_like(logit), logit], 1)
        return len(X) * F.cross_entropy(logits, T)

    grads = torch.func.vmap(torch.func.grad(loss), randomness="different")(values)
    (kl_grad,) = torch.autograd.grad(layer.kl(), layer.log_alpha)
    samples = torch.cat([grads["mu"][:, 0], (grads["log_alpha"] + kl_grad)[:, None]], 1)
    assert_mean(samples, finite_differences(mu, log_alpha))


def test_gradient_of_the_fused_path_is_unbiased():
    """The same through .backward(), which takes the fused path: the batch is repeated, gradients are averages."""
    mu, n, groups = np.array([0.7, -0.4]), 200, 400
    layer = Linear(2, 1, bias=False, param="layer", estimator="exact", log_alpha=0.5, dtype=torch.double)
    layer.mu.data.copy_(torch.from_numpy(mu)[None])
    samples = []
    for _ in range(groups):
        layer.zero_grad()
        logit = layer(X.repeat(n, 1))
        logits = torch.cat([torch.zeros_like(logit), logit], 1)
        negative_elbo(layer, logits, T.repeat(n), data_size=len(X)).backward()
        samples.append(torch.cat([layer.mu.grad[0], layer.log_alpha.grad[None]]))
    assert_mean(torch.stack(samples), finite_differences(mu, 0.5))
