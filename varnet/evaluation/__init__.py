"""What a network predicts in every mode and how good that is: predictions, metrics, ensembles, pruning."""

from varnet.evaluation.ensemble import Ensemble
from varnet.evaluation.metrics import summary
from varnet.evaluation.predictions import Predictions, data_term, elbo, evaluate, predict, weight_samples
from varnet.evaluation.pruning import prune, pruning_curve

__all__ = [
    "Ensemble", "Predictions", "data_term", "elbo", "evaluate", "predict", "prune", "pruning_curve", "summary",
    "weight_samples",
]  # fmt: skip
