"""Predictions of a whole set in every mode, apart from the numbers that are made of them (metrics.py; section 6.1).

All with batch norm in evaluation mode. Noise comes from a generator state of its own, so that evaluating more or less
often does not change a training run.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from varnet.base import device
from varnet.evaluation import metrics
from varnet.evaluation.ensemble import Ensemble
from varnet.evaluation.metrics import average_probs
from varnet.evaluation.one_mask import one_mask
from varnet.evaluation.prefix import Sampler
from varnet.nn.layers import Variational, held_in, layers_of
from varnet.nn.likelihoods import CATEGORICAL, Likelihood
from varnet.nn.modes import drops, predicting, resample
from varnet.nn.objective import kl

Batches = Iterable[tuple[Tensor, Tensor]]
CPU_ROWS = 200  # images at once on a CPU: what its caches hold is faster than more


class Predictions(NamedTuple):
    """Predictions for N objects and C classes."""

    y: Tensor  # (N,)
    log_probs: Tensor  # (N, C): log of the probabilities averaged over the samples
    first: Tensor  # (N, C): log of the first sample's
    expected_entropy: Tensor  # (N,): mean entropy of a sample, of each member's in an ensemble
    first_entropy: Tensor  # (N,): of the first sample; in an ensemble the mean over the members


class WeightSamples(NamedTuple):
    """Predictions by single draws of the weights."""

    accuracy: Tensor  # (draws,) in %: of each draw of the weights on the whole set (Figure 4)
    average: Predictions  # over all draws


def predict(
    model: nn.Module,
    batches: Batches,
    mode: str = "sample",
    samples: int = 1,
    layers: str | Iterable[str] = "all",
    seed: int = 0,
    fold: int | None = None,
) -> Predictions:
    """Average `samples` predictions for each object in a mode of varnet.nn.modes. Eq. (2) Targets are classes; for
    others see varnet.mixture.

    layers   which layers are zero_mean, permuted, deterministic; the others sample
    fold     put several samples into one batch of at most this many rows; None: one after the other
    """
    parts = []
    with isolated(seed), torch.no_grad(), predicting(model, mode, layers):
        samplers = [Sampler(member, fold) for member in members_of(model)]
        for x, y in batches:
            parts.append(_summary(y, [[_log_probs(out, y) for out in outputs_of(s, x, samples)] for s in samplers]))
    return _joined(parts)


def outputs_of(sampler: Sampler, x: Tensor, samples: int) -> Iterator[Tensor]:
    """Outputs of the model, each drawn when it is asked for; a single one shares its prefix with none, and needs no
    cut."""
    return (sampler.model(x) for _ in range(1)) if samples == 1 else sampler(x, samples)


def members_of(model: nn.Module) -> list[nn.Module]:
    """List the networks of an ensemble, whose disagreement is uncertainty too; else the model itself."""
    return list(model.members) if isinstance(model, Ensemble) else [model]


def weight_samples(
    model: nn.Module, batches: Batches, draws: int, seed: int = 0, mode: str = "sample"
) -> WeightSamples:
    """Predict the whole set with one draw of the weights, `draws` times. One of binary dropout is one mask for all.

    A draw is made again for every batch, from its own seed: what comes before the first random layer is then computed
    once, and no more than a batch is in memory.
    """
    parts, correct, count = [], torch.zeros(draws, dtype=torch.double), 0
    with isolated(seed), torch.no_grad(), one_mask(model), predicting(model, mode, sampling="weights"):
        seeds = torch.randint(2**31, (draws,)).tolist()
        sampler = Sampler(model)
        for x, y in batches:
            outs, logs = outputs_of(sampler, x, draws), []
            for own in seeds:
                torch.manual_seed(own)
                if held_in(model):
                    resample(model)
                logs.append(_log_probs(next(outs), y))
            correct += torch.stack([metrics.hits(log, y).sum() for log in logs]).cpu()
            count += len(y)
            parts.append(_summary(y, [logs]))
    return WeightSamples(100 * correct / count, _joined(parts))


def _log_probs(out: Tensor, y: Tensor) -> Tensor:
    CATEGORICAL.check(out, y)  # for other targets: varnet.mixture
    return out.float().log_softmax(1)


def _summary(y: Tensor, members: list[list[Tensor]]) -> Predictions:
    """Summarize log probabilities of each member's samples."""
    every, first = [log for samples in members for log in samples], [samples[0] for samples in members]
    entropy = torch.stack([metrics.entropy(log) for log in every])  # of the first member's samples, the second's, ...
    first_entropy = entropy[:: len(members[0])].mean(0)
    return Predictions(y, average_probs(every), average_probs(first), entropy.mean(0), first_entropy)


def _joined(parts: list[Predictions]) -> Predictions:
    if not parts:
        raise ValueError("there are no batches to predict")
    return Predictions(*(torch.cat(tensors).cpu() for tensors in zip(*parts, strict=True)))


def evaluate(
    model: nn.Module, batches: Batches, samples: int, seed: int, fold: int | None = None
) -> dict[str, float | None]:
    """Measure accuracy in % and negative log-likelihood per object in every mode; None where a mode has no meaning."""
    found = layers_of(model).values()
    det = predict(model, batches, "deterministic", seed=seed)
    sampled = predict(model, batches, "sample", samples, seed=seed, fold=fold) if is_stochastic(model) else det
    zero_mean = None
    if found:
        every = all(layer.param.zero_mean for layer in found)
        zero_mean = sampled if every else predict(model, batches, "zero_mean", samples, seed=seed, fold=fold)
    shown: dict[str, Tensor | None] = {"det": det.log_probs, "1": sampled.first, "k": sampled.log_probs}
    shown["zero_mean_k"] = None if zero_mean is None else zero_mean.log_probs
    return {
        f"{key}_{mode}": None if log_probs is None else measure(log_probs, det.y)
        for key, measure in (("acc", metrics.accuracy), ("nll", metrics.nll))
        for mode, log_probs in shown.items()
    }


def data_term(
    model: nn.Module, batches: Batches, samples: int, seed: int, likelihood: Likelihood = CATEGORICAL
) -> tuple[float, float | None]:
    """Estimate E_q log p(T | X, W) of a whole set, averaged over noise samples for each object (Table 1's protocol),
    and its standard error, None for one sample. The samples of a batch are independent; its objects need not be, as a
    draw of the weights may be shared."""
    total, variance = 0.0, 0.0
    with isolated(seed), torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        for x, y in batches:
            logs = torch.stack([_log_likelihood(out, y, likelihood) for out in sampler(x, samples)])
            sums = logs.double().sum(1)
            total += float(sums.mean())
            variance += float(sums.var()) / samples if samples > 1 else 0.0
    return total, math.sqrt(variance) if samples > 1 else None


def _log_likelihood(out: Tensor, y: Tensor, likelihood: Likelihood) -> Tensor:
    if likelihood.classes:
        return metrics.log_likelihood(_log_probs(out, y), y)
    likelihood.check(out, y)
    return likelihood.log_prob(out.float(), y)


def elbo(
    model: nn.Module, batches: Batches, samples: int, seed: int, likelihood: Likelihood = CATEGORICAL
) -> dict[str, float | None]:
    """Estimate the ELBO of a whole set, its terms, and the standard error that the noise samples leave."""
    term, error = data_term(model, batches, samples, seed, likelihood)
    with isolated(seed), torch.no_grad():
        divergence = float(kl(model))
    return {"elbo": term - divergence, "data_term": term, "kl": divergence, "elbo_error": error}


def is_stochastic(module: nn.Module) -> bool:
    """Tell whether two calls may differ: by a variational layer that is not a point estimate, or by dropout."""
    return any((isinstance(m, Variational) and not m.param.deterministic) or drops(m) for m in module.modules())


def batch_size(device: torch.device, max_batch: int) -> tuple[int, int | None]:
    """Choose (images at once, rows that samples may be folded into) within the memory limit `eval.max_batch`."""
    return (min(max_batch, CPU_ROWS), None) if device.type == "cpu" else (max_batch, max_batch)


@contextlib.contextmanager
def batch_statistics(model: nn.Module) -> Iterator[None]:
    """Norm by the statistics of each test batch, as in a model left in training mode: what a prediction of one image
    cannot have. For comparison; nothing is updated."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    kept = [(norm.running_mean, norm.running_var) for norm in norms]
    for norm in norms:
        norm.running_mean = norm.running_var = None
    try:
        yield
    finally:
        for norm, (mean, variance) in zip(norms, kept, strict=True):
            norm.running_mean, norm.running_var = mean, variance


@contextlib.contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Seed the random numbers inside; those outside go on as if nothing had been drawn."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    mps = torch.mps.get_rng_state() if device.has_mps() else None  # fork_rng does not know of it, manual_seed does
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            if mps is not None:
                torch.mps.set_rng_state(mps)
