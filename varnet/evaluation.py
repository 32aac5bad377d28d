"""Predictions and their numbers: deterministic, one sample, K samples, zero-mean with K samples (section 6.1).

All with batch norm in evaluation mode. Noise comes from a generator state of its own, so that evaluating more or less
often does not change a training run.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from varnet import local
from varnet.layers import Variational, layers_of, predicting

Batches = Iterable[tuple[Tensor, Tensor]]


def evaluate(model: nn.Module, batches: Batches, samples: int, seed: int) -> dict[str, float | None]:
    """Test accuracy in % and negative log-likelihood per object of every mode; None where a mode has no meaning."""
    found = layers_of(model).values()
    with isolated(seed), torch.no_grad():
        det = _score(model, batches, "deterministic", 1)
        sampled = _score(model, batches, "sample", samples) if is_stochastic(model) else det
        if not found:
            zero_mean = {"acc_k": None, "nll_k": None}
        elif all(layer.param.zero_mean for layer in found):
            zero_mean = sampled
        else:
            zero_mean = _score(model, batches, "zero_mean", samples)
    return {
        "acc_det": det["acc_k"], "acc_1": sampled["acc_1"], "acc_k": sampled["acc_k"],
        "acc_zero_mean_k": zero_mean["acc_k"],
        "nll_det": det["nll_k"], "nll_1": sampled["nll_1"], "nll_k": sampled["nll_k"],
        "nll_zero_mean_k": zero_mean["nll_k"],
    }  # fmt: skip


def data_term(model: nn.Module, batches: Batches, samples: int, seed: int) -> float:
    """E_q log p(T | X, W) of a whole set, averaged over noise samples for each object (Table 1's protocol)."""
    total = torch.zeros((), dtype=torch.double)
    with isolated(seed), torch.no_grad(), predicting(model, "sample"):
        for x, y in batches:
            logs = torch.stack([_log_likelihood(p, y) for p in sampled_log_probs(model, x, samples)])
            total += logs.double().mean(0).sum().cpu()
    return float(total)


def _score(model: nn.Module, batches: Batches, mode: str, samples: int) -> dict[str, float]:
    """Accuracy and NLL of the first sample and of the average over samples."""
    sums, count = torch.zeros(4, dtype=torch.double), 0
    with predicting(model, mode):
        for x, y in batches:
            log_probs = sampled_log_probs(model, x, samples)
            average = average_probs(log_probs)
            sums += torch.stack([*_sums(log_probs[0], y), *_sums(average, y)]).cpu()
            count += len(y)
    acc_1, nll_1, acc_k, nll_k = (sums / count).tolist()
    return {"acc_1": 100 * acc_1, "nll_1": nll_1, "acc_k": 100 * acc_k, "nll_k": nll_k}


def _sums(log_probs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    correct = (log_probs.argmax(1) == y).sum().double()
    return correct, -_log_likelihood(log_probs, y).double().sum()


def _log_likelihood(log_probs: Tensor, y: Tensor) -> Tensor:
    return log_probs.gather(1, y[:, None])[:, 0]


def average_probs(log_probs: list[Tensor]) -> Tensor:
    """log of the mean of the predicted probabilities. Eq. (2)"""
    return torch.logsumexp(torch.stack(log_probs), 0) - math.log(len(log_probs))


def sampled_log_probs(model: nn.Module, x: Tensor, samples: int) -> list[Tensor]:
    """log p(t | x, W_k) in the state the model is in. What comes before the first noise is computed once."""
    draw, rest = _split(model, x)
    return [rest(draw()).float().log_softmax(1) for _ in range(samples)]


def _split(model: nn.Module, x: Tensor) -> tuple[Callable[[], Tensor], nn.Module]:
    """A function that draws the output of the first stochastic layer, and what comes after it."""
    if not isinstance(model, nn.Sequential):
        return lambda: x, model
    first = next((i for i, module in enumerate(model) if is_stochastic(module)), len(model))
    hidden = model[:first](x)
    if first == len(model):
        return lambda: hidden, nn.Identity()
    layer, rest = model[first], model[first + 1 :]
    if isinstance(layer, Variational) and layer.samples_locally:
        mean, std = layer.moments(hidden)
        return lambda: local.shifted(mean, std, local.noise_like(std)), rest
    return lambda: layer(hidden), rest


def is_stochastic(module: nn.Module) -> bool:
    """Whether two calls may differ: a variational layer that is not a point estimate, or dropout."""
    return any(
        (isinstance(m, Variational) and not m.param.deterministic)
        or (isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0)
        for m in module.modules()
    )


@contextlib.contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Random numbers of their own inside; those outside go on as if nothing had been drawn."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield
