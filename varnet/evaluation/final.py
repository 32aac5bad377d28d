"""Numbers of a network that has been trained, which are too much for every epoch."""

import copy

import torch
from torch import nn

from varnet.evaluation import metrics
from varnet.evaluation.predictions import Batches, predict, weight_samples
from varnet.evaluation.sparsity import compression, kept, sparsity
from varnet.nn.layers import layers_of


def final(model: nn.Module, batches: Batches, seed: int) -> dict[str, object]:
    """Measure one draw of the weights for the whole set ("one sample" in the caption of Table 2); and, where weights
    have an alpha each and all took part in training, what is left without those past the published threshold."""
    found: dict[str, object] = {"acc_1_weights": float(weight_samples(model, batches, 1, seed).accuracy[0])}
    layers = layers_of(model).values()
    if layers and all(layer.param.alpha_per_weight and layer.param.threshold is None for layer in layers):
        left = predict(without(model), batches, "deterministic")
        found["pruned"] = {
            "acc_det": metrics.accuracy(left.log_probs, left.y), "sparsity": sparsity(model),
            "compression": compression(model),
        }  # fmt: skip
    return found


def without(model: nn.Module, threshold: float | None = None) -> nn.Module:
    """Copy a model, its weights of log alpha from a threshold on (None: as published) being 0."""
    smaller = copy.deepcopy(model)
    with torch.no_grad():
        for layer in layers_of(smaller).values():
            layer.param.erase(layer, ~kept(layer, threshold))
    return smaller
