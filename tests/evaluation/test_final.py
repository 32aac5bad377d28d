"""The numbers of a trained network: what is left without its noisy weights."""

import torch
from torch import nn

from varnet.evaluation.final import final, without
from varnet.evaluation.predictions import predict, weight_samples
from varnet.nn.convert import variational


def network(**options) -> nn.Module:
    torch.manual_seed(0)
    return variational(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), param="additive", **options)


def test_weights_past_the_threshold_are_removed_and_counted():
    model, x = network(log_alpha=-5.0), torch.randn(50, 6)
    batches = [(x, torch.arange(50) % 3)]
    model[0].log_sigma2.data[:2] += 20  # of two of eight units: log alpha 15
    found = final(model, batches, seed=4)
    assert found["pruned"]["sparsity"] == {"0": 25.0, "2": 0.0} and found["pruned"]["compression"] == 72 / 60
    by_hand = network(log_alpha=-5.0)
    by_hand[0].mu.data[:2] = 0.0
    left = predict(without(model), batches, "deterministic").log_probs
    torch.testing.assert_close(left, predict(by_hand, batches, "deterministic").log_probs)
    assert (model[0].mu != 0).all(), "the network itself is left alone"
    assert found["acc_1_weights"] == float(weight_samples(model, batches, 1, seed=4).accuracy[0])


def test_other_networks_have_nothing_removed():
    batches = [(torch.randn(5, 6), torch.zeros(5, dtype=torch.long))]
    for model in (network(threshold=3.0), variational(nn.Sequential(nn.Linear(6, 3)), param="layer"), nn.Linear(6, 3)):
        assert set(final(model, batches, seed=0)) == {"acc_1_weights"}
