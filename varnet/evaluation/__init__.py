"""Predictions of a trained network, and what is made of them.

    predictions   every mode of prediction of a whole set, averaged; weight samples, ELBO, data term
    mixtures      the same where targets are numbers: a mixture, its mean, its two variances, its intervals
    numbers       error, likelihood, coverage and calibration of mixtures
    measuring     what a likelihood is measured by while a network is trained
    metrics       accuracy, likelihood, calibration, entropies, AUROC: functions of log probabilities
    ensemble      several networks as one
    pruning       removing the weights that a network can do without
    sparsity      which weights sparse variational dropout has removed
    shift         turned images, images of another dataset
    prefix        many samples of one network, what no noise reaches computed once

>>> import torch
>>> from varnet.evaluation import metrics, predict
>>> batches = [(torch.zeros(3, 4), torch.tensor([0, 1, 1]))]
>>> found = predict(torch.nn.Linear(4, 2), batches, "deterministic")
>>> 0 <= metrics.accuracy(found.log_probs, found.y) <= 100
True
"""

from varnet.evaluation import metrics, numbers
from varnet.evaluation.ensemble import Ensemble
from varnet.evaluation.metrics import summary
from varnet.evaluation.mixtures import Mixture, mixture, weight_mixture
from varnet.evaluation.predictions import (
    Predictions,
    WeightSamples,
    data_term,
    elbo,
    evaluate,
    is_stochastic,
    predict,
    weight_samples,
)
from varnet.evaluation.prefix import Sampler
from varnet.evaluation.pruning import prune, pruning_curve
from varnet.evaluation.shift import against, as_inputs_of, by_angle
from varnet.evaluation.sparsity import compression, kept

__all__ = [
    "Ensemble", "Mixture", "Predictions", "Sampler", "WeightSamples", "against", "as_inputs_of", "by_angle",
    "compression", "data_term", "elbo", "evaluate", "is_stochastic", "kept", "metrics", "mixture", "numbers", "predict",
    "prune", "pruning_curve", "summary", "weight_mixture", "weight_samples",
]  # fmt: skip
