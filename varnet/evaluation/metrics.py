"""Numbers of predictions: functions of log probabilities (N, C) and labels (N,). Accuracies are in %.

Entropies are in nats. Predictive entropy = mutual information + expected entropy: what averaging over the weights adds,
and what each draw is unsure of by itself. A number of predictions of which one is NaN is NaN. torchmetrics is imported
where it is used, because that takes seconds.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from varnet.evaluation.predictions import Predictions

BINS = 15  # of the calibration error, as usual


def average_probs(log_probs: list[Tensor]) -> Tensor:
    """Average predicted probabilities, given and returned as logs. Eq. (2)"""
    return torch.logsumexp(torch.stack(log_probs), 0) - math.log(len(log_probs))


def check_numbers(log_probs: Tensor) -> None:
    """Refuse NaN, which for argmax is the largest number: always right or wrong, and proof against attacks."""
    if bool(log_probs.isnan().any()):
        raise ValueError("the network predicts NaN: train it anew, with a lower learning rate")


def log_likelihood(log_probs: Tensor, y: Tensor) -> Tensor:
    """Log of the probability of the label, for each object."""
    return log_probs.gather(1, y[:, None])[:, 0]


def hits(log_probs: Tensor, y: Tensor) -> Tensor:
    """Mark objects with 1 where the label is the most probable class, 0 elsewhere, NaN where the prediction is NaN."""
    right = (log_probs.argmax(1) == y).float()
    return right.masked_fill(log_probs.isnan().any(1), math.nan)


def accuracy(log_probs: Tensor, y: Tensor) -> float:
    """Part of the objects whose label is the most probable class, in %."""
    return 100 * float(hits(log_probs, y).double().mean())


def nll(log_probs: Tensor, y: Tensor) -> float:
    """Mean negative log-likelihood of an object."""
    return -float(log_likelihood(log_probs, y).double().mean())


def brier(log_probs: Tensor, y: Tensor) -> float:
    """Mean of sum_c (p_c - [c = y])^2: 0 is perfect, 2 the worst."""
    probs = log_probs.double().exp()
    return float((probs.square().sum(1) - 2 * log_likelihood(probs, y) + 1).mean())


def entropy(log_probs: Tensor) -> Tensor:
    """Entropy of the prediction of each object."""
    return -(log_probs.exp() * log_probs.clamp_min(torch.finfo(log_probs.dtype).min)).sum(1)


def mutual_information(predictions: "Predictions") -> Tensor:
    """Information that label and weights share, for each object: entropy of the average less the average entropy."""
    return (entropy(predictions.log_probs) - predictions.expected_entropy).clamp_min(0)


def ece(log_probs: Tensor, y: Tensor, bins: int = BINS) -> float:
    """Expected calibration error: |accuracy - confidence| averaged over bins of confidence."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    if bool(log_probs.isnan().any()):
        return math.nan
    return float(multiclass_calibration_error(log_probs.exp(), y, log_probs.shape[1], bins))


def reliability(log_probs: Tensor, y: Tensor, bins: int = BINS) -> list[dict[str, float]]:
    """Count, mean confidence and accuracy of each bin of confidence that is not empty. NaN belongs to no bin."""
    check_numbers(log_probs)
    confidence, guess = log_probs.double().exp().max(1)
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.double)
    index = torch.bucketize(confidence, edges[1:-1])
    rows = []
    for b in index.unique().tolist():
        inside = index == b
        rows.append(
            {
                "low": float(edges[b]), "high": float(edges[b + 1]), "count": int(inside.sum()),
                "confidence": float(confidence[inside].mean()),
                "accuracy": 100 * float((guess == y)[inside].double().mean()),
            }
        )  # fmt: skip
    return rows


def accuracy_by_class(log_probs: Tensor, y: Tensor) -> list[float | None]:
    """Accuracy on the objects of each class; None for a class without objects."""
    right, classes = hits(log_probs, y).double(), range(log_probs.shape[1])
    return [100 * float(right[y == c].mean()) if (y == c).any() else None for c in classes]


def bootstrap_interval(
    log_probs: Tensor, y: Tensor, level: float = 0.95, replicates: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentiles of the accuracy: in a resampled set of size N the number right is Binomial(N, accuracy)."""
    right = accuracy(log_probs, y) / 100
    if math.isnan(right):
        return math.nan, math.nan
    draws = np.random.default_rng(seed).binomial(len(y), right, replicates) / len(y)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return 100 * float(low), 100 * float(high)


def auroc(inside: Tensor, outside: Tensor) -> float:
    """Chance that an outlier scores higher than an object of the data; ties count half."""
    from torchmetrics.functional.classification import binary_auroc

    if not len(inside) or not len(outside):
        raise ValueError(f"{len(inside)} scores inside, {len(outside)} outside: give at least one of each")
    if bool(inside.isnan().any() or outside.isnan().any()):
        return math.nan
    # Ranks instead of scores: torchmetrics takes values outside [0, 1] for logits, and a sigmoid would make ties.
    _, ranks = torch.cat([inside, outside]).double().unique(return_inverse=True)
    labels = torch.cat([torch.zeros(len(inside)), torch.ones(len(outside))]).long()
    return float(binary_auroc(ranks.double() / max(1, int(ranks.max())), labels))


def summary(predictions: "Predictions") -> dict[str, object]:
    """Every number of a set of predictions."""
    log_probs, y = predictions.log_probs, predictions.y
    return {
        "accuracy": accuracy(log_probs, y),
        "accuracy_interval": bootstrap_interval(log_probs, y),
        "nll": nll(log_probs, y),
        "brier": brier(log_probs, y),
        "ece": ece(log_probs, y),
        "entropy": float(entropy(log_probs).double().mean()),
        "expected_entropy": float(predictions.expected_entropy.double().mean()),
        "mutual_information": float(mutual_information(predictions).double().mean()),
        "accuracy_by_class": accuracy_by_class(log_probs, y),
    }
