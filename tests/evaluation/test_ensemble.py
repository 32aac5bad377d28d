"""Ensembles of networks: their output, their samples and their metrics."""

import pytest
import torch

from varnet.evaluation import metrics, predictions
from varnet.evaluation.ensemble import Ensemble
from varnet.evaluation.prefix import Sampler, cut
from varnet.nn import networks
from varnet.nn.layers import layers_of
from varnet.nn.modes import predicting


def member(param: str = "zero_mean", **options) -> torch.nn.Sequential:
    return networks.build("lenet300", (1, 4, 4), 3, param=param, layers=["dense2"], width=0.05, **options)


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.rand(6, 1, 4, 4), torch.randint(3, (6,))) for _ in range(2)]


def test_the_output_is_the_log_of_the_averaged_probabilities():
    members = [member("deterministic") for _ in range(3)]
    x = torch.rand(6, 1, 4, 4)
    out = Ensemble(members)(x)
    torch.testing.assert_close(out.exp(), sum(m(x).softmax(1) for m in members) / 3)
    torch.testing.assert_close(out.log_softmax(1), out)


@pytest.mark.parametrize("options", [{}, {"dropout": True}])
def test_samples_share_the_prefix_of_every_member(options):
    model = Ensemble([member(**options), member("layer", **options), member("deterministic")])
    x = torch.rand(6, 1, 4, 4)
    with torch.no_grad(), predicting(model, "sample"):
        found, why = cut(model, x)
        assert found is not None and found.suffix is not None, why
        torch.manual_seed(3)
        fast = list(Sampler(model)(x, 3))
        torch.manual_seed(3)
        plain = [model(x) for _ in range(3)]
    assert not torch.equal(plain[0], plain[1])
    for a, b in zip(fast, plain, strict=True):
        torch.testing.assert_close(a, b)


def test_the_modes_reach_the_members():
    model = Ensemble([member("layer"), member("layer")]).train()
    x = torch.rand(6, 1, 4, 4)
    with torch.no_grad(), predicting(model, "deterministic"):
        assert {layer.state.sampling for layer in layers_of(model).values()} == {"none"} and len(layers_of(model)) == 2
        torch.testing.assert_close(model(x), model(x), rtol=0, atol=0)
    assert model.members[0].training and layers_of(model)["members.1.dense2"].state.sampling == "local"


def test_every_metric_of_a_network_is_one_of_an_ensemble():
    members, data = [member("deterministic"), member("deterministic")], batches()
    found = predictions.predict(Ensemble(members), data)
    alone = [predictions.predict(m, data).log_probs for m in members]
    torch.testing.assert_close(found.log_probs, metrics.average_probs(alone))
    entropies = torch.stack([metrics.entropy(log_probs) for log_probs in alone])
    torch.testing.assert_close(found.expected_entropy, entropies.mean(0))  # so that members may disagree
    torch.testing.assert_close(found.first_entropy, entropies.mean(0))
    assert metrics.summary(found)["mutual_information"] > 1e-4
    model = Ensemble([member(), member()])
    numbers = predictions.evaluate(model, data, samples=3, seed=0)
    assert all(isinstance(value, float) for value in numbers.values())
    assert metrics.summary(predictions.predict(model, data, "sample", 3))["mutual_information"] > 0
    assert predictions.weight_samples(model, data, draws=3).accuracy.shape == (3,)


def test_an_ensemble_needs_a_member():
    with pytest.raises(ValueError, match="at least one network"):
        Ensemble([])
