"""Transformers and recurrent networks of torch, which draw noise of their own in training mode only."""

import pytest
import torch
from torch import Tensor, nn

from tests.statistics_helper import assert_same_mean
from varnet import predicting, variational
from varnet.evaluation.predictions import is_stochastic

STATES = ["evaluation mode", "predicting"]


def encoder(dropout: float = 0.0, **options) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(8, 2, 16, dropout, batch_first=True, **options)


def outputs(model: nn.Module, x: Tensor, state: str) -> Tensor:
    with torch.no_grad():
        if state == "evaluation mode":
            return model.eval()(x)
        if state == "training mode":
            return model.train()(x)
        with predicting(model, "sample"):
            return model(x)


@pytest.mark.parametrize("layers", ["linear1", "linear2"])
@pytest.mark.parametrize("state", STATES)
def test_objects_have_noise_of_their_own_inside_an_encoder_layer(state, layers):
    model = variational(encoder(), layers, log_alpha=1.0)
    x = torch.randn(1, 3, 8).expand(3000, 3, 8)
    found, expected = (outputs(model, x, s) for s in (state, "training mode"))
    assert len(found[:, 0, 0].unique()) > 2900
    assert_same_mean(found, expected)
    assert_same_mean(found.square(), expected.square())


@pytest.mark.parametrize("state", STATES)
def test_objects_of_a_padded_batch_have_noise_of_their_own(state):
    model = variational(nn.TransformerEncoder(encoder(), 2), "layers.1.linear1", log_alpha=1.0)
    x, padding = torch.randn(1, 3, 8).expand(50, 3, 8), torch.tensor([[False, False, True]]).expand(50, 3)
    model.eval()
    with torch.no_grad(), predicting(model, "sample") if state == "predicting" else torch.no_grad():
        found = model(x, src_key_padding_mask=padding)
    assert found.shape == x.shape and len(found[:, 0, 0].unique()) > 40


class First(nn.Module):
    """The first output of a layer that has several."""

    def __init__(self, layer: nn.Module, inputs: int):
        super().__init__()
        self.layer, self.inputs = layer, inputs

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(*[x] * self.inputs)[0]


DROPPING = {
    "encoder layer": lambda: encoder(0.3),
    "encoder": lambda: nn.TransformerEncoder(encoder(0.3), 1),
    "attention": lambda: First(nn.MultiheadAttention(8, 2, 0.5, batch_first=True), 3),
    "recurrent": lambda: First(nn.GRU(8, 8, 2, dropout=0.5, batch_first=True), 1),
}


@pytest.mark.parametrize("make", DROPPING.values(), ids=DROPPING)
def test_dropout_inside_of_a_layer_is_on_while_sampling(make):
    model, x = make(), torch.randn(1, 3, 8).expand(3000, 3, 8)
    assert is_stochastic(model)
    found, expected = (outputs(model, x, s) for s in ("predicting", "training mode"))
    assert len(found[:, 2, 0].unique()) > 2
    assert_same_mean(found, expected)
    assert_same_mean(found.square(), expected.square())


@pytest.mark.parametrize("make", DROPPING.values(), ids=DROPPING)
def test_dropout_inside_of_a_layer_is_off_otherwise_and_flags_come_back(make):
    model, x = make(), torch.randn(4, 3, 8)
    flags = [module.training for module in model.modules()]
    with torch.no_grad(), predicting(model, "deterministic"):
        first, second = model(x), model(x)
    assert [module.training for module in model.modules()] == flags
    assert torch.equal(first, second)
    torch.testing.assert_close(first, outputs(model, x, "evaluation mode"))


def test_layers_without_dropout_are_not_random():
    assert not any(is_stochastic(m) for m in (encoder(), nn.GRU(8, 8, 2), nn.GRU(8, 8, 1), nn.MultiheadAttention(8, 2)))
