"""What is measured of a network while it is trained, by its likelihood: classes are counted, other targets measured."""

from torch import nn

from varnet.evaluation import metrics, numbers, predictions
from varnet.evaluation.mixtures import mixture
from varnet.evaluation.predictions import Batches
from varnet.nn.likelihoods import CATEGORICAL, Likelihood


def evaluated(
    model: nn.Module, batches: Batches, samples: int, seed: int, fold: int | None, likelihood: Likelihood = CATEGORICAL
) -> dict[str, float | None]:
    """Every measure in every mode, by its name and the mode's: nll_k."""
    if likelihood.classes:
        return predictions.evaluate(model, batches, samples, seed, fold)
    return numbers.evaluate(model, batches, samples, seed, fold, likelihood)


def fit_of(model: nn.Module, batches: Batches, likelihood: Likelihood = CATEGORICAL) -> dict[str, float]:
    """How well a network without noise fits its training set: train_acc_det, or train_rmse_det."""
    if likelihood.classes:
        det = predictions.predict(model, batches, "deterministic")
        return {"train_acc_det": metrics.accuracy(det.log_probs, det.y)}
    found = mixture(model, batches, likelihood, "deterministic")
    first = likelihood.measures()[0]
    return {f"train_{first}_det": numbers.MEASURES[first](found)}
