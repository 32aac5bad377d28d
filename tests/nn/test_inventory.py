"""What a conversion says of itself: every module with parameters is in the report, random or with a reason."""

import logging

import pytest
import torch
from torch import Tensor, nn

from tests.nn.refused import assert_refused
from varnet import inventory, register_layer, variational
from varnet.nn.inventory import Inventory
from varnet.nn.layers import Linear, LinearTransposed, layers_of
from varnet.nn.matching import LOOK_ALIKES


class Heir(nn.Linear):
    """A subclass that computes what its parent does."""


class Scaled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 10 * super().forward(x)


class Foreign(nn.Module):
    """A dense layer of another library."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.inner = nn.Parameter(torch.zeros(1, 5, 3)), nn.Linear(3, 3)


NORM, UNKNOWN, OWN = "a norm", "not a known kind", "a forward of its own"
KINDS = {  # what -> (how many weights become random; None and part of the reason, where none does)
    "linear": (lambda: nn.Linear(3, 4), 12),
    "without bias": (lambda: nn.Linear(3, 4, bias=False), 12),
    "heir": (lambda: Heir(3, 4), 12),
    "conv1d": (lambda: nn.Conv1d(2, 3, 4), 24),
    "conv2d": (lambda: nn.Conv2d(2, 4, 3, groups=2), 36),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), 16),
    "transposed1d": (lambda: nn.ConvTranspose1d(2, 3, 4), 24),
    "transposed2d": (lambda: nn.ConvTranspose2d(2, 3, 2), 24),
    "transposed3d": (lambda: nn.ConvTranspose3d(2, 1, 2), 16),
    "embedding": (lambda: nn.Embedding(5, 3), 15),
    "bilinear": (lambda: nn.Bilinear(2, 3, 4), 24),
    "rnn": (lambda: nn.RNN(2, 3), 15),
    "lstm": (lambda: nn.LSTM(2, 3), 60),
    "gru": (lambda: nn.GRU(2, 3, 2), 99),
    "rnn cell": (lambda: nn.RNNCell(2, 3), 15),
    "lstm cell": (lambda: nn.LSTMCell(2, 3), 60),
    "gru cell": (lambda: nn.GRUCell(2, 3), 45),
    "attention": (lambda: nn.MultiheadAttention(4, 2), 48),
    "keys of their own": (lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=2), 36),
    "scaled": (lambda: Scaled(3, 4), OWN),
    "foreign": (Foreign, UNKNOWN),
    "bag": (lambda: nn.EmbeddingBag(5, 3), UNKNOWN),
    "capped": (lambda: nn.Embedding(5, 3, max_norm=1.0), "max_norm"),
    "sparse": (lambda: nn.Embedding(5, 3, sparse=True), "sparse"),
    "lazy": (lambda: nn.LazyLinear(4), "no weights yet"),
    "batch norm": (lambda: nn.BatchNorm2d(3), NORM),
    "layer norm": (lambda: nn.LayerNorm(3), NORM),
    "group norm": (lambda: nn.GroupNorm(1, 3), NORM),
    "rms norm": (lambda: nn.RMSNorm(3), NORM),
    "prelu": (nn.PReLU, "an activation"),
    "positions": (Positions, "no weights"),
    "relu": (nn.ReLU, None),
}


def test_thirty_kinds_of_module_and_the_truth():
    model = nn.ModuleDict({name: make() for name, (make, _) in KINDS.items()})
    assert len(model) >= 30
    with pytest.warns(UserWarning, match=r"leaves 6 with weights as they are: scaled \(Scaled: a subclass"):
        variational(model)
    report = {row.name: row for row in inventory(model)}
    for name, (_, expected) in KINDS.items():
        if expected is None:
            assert name not in report
        elif isinstance(expected, int):
            assert report[name].random == expected and report[name].how, name
        else:
            assert report[name].random == 0 and expected in report[name].why, name
    inside = {"attention.out_proj": 16, "keys of their own.out_proj": 16, "positions.inner": 9}
    assert {name: report[name].random for name in inside} == inside
    assert set(report) == {name for name, (_, e) in KINDS.items() if e is not None} | set(inside)
    of_layers = sum(layer.weight_shape.numel() for layer in layers_of(model).values())
    assert of_layers == sum(row.random for row in report.values())
    learned = sum(p.numel() for p in model.parameters() if not nn.parameter.is_lazy(p))
    alphas = sum(layer.log_alpha.numel() for layer in layers_of(model).values())
    assert learned == alphas + sum(row.random + row.fixed for row in report.values())
    assert "bias_ih_l0, bias_hh_l0 fixed" in report["lstm"].why and "one draw a call" in report["lstm"].how
    assert "noise at the output" in report["gru cell"].how and "noise at the output" in report["conv1d"].how


def test_the_report_is_printed_and_logged(caplog):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    with caplog.at_level(logging.INFO, "varnet"):
        variational(model, "0", param="neuron", prior="ard")
    found = inventory(model)
    assert isinstance(found, Inventory) and str(found) in caplog.text
    assert found.random == ["0"] and found.left["2"] == "not chosen by `layers`" and NORM in found.left["1"]
    assert "param=neuron, prior=ard, noise at the output; bias fixed" in str(found) and "of 34" in str(found)


def test_param_deterministic_is_no_noise():
    (row,) = inventory(variational(nn.Linear(3, 4), param="deterministic"))
    assert row.random == 0 and row.fixed == 16 and "param=deterministic" in row.why


@pytest.fixture
def table():
    before = dict(LOOK_ALIKES)
    yield
    LOOK_ALIKES.clear()
    LOOK_ALIKES.update(before)


def as_linear(module: Foreign) -> nn.Linear:
    plain = nn.Linear(3, 4, device="meta")
    plain.weight, plain.bias = module.weight, module.bias
    return plain


@pytest.mark.parametrize("kind", [Foreign, f"{Foreign.__module__}.Foreign"])
@pytest.mark.parametrize("adapter", [Linear, as_linear])
def test_a_look_alike_that_is_registered(table, kind, adapter):
    model, x = nn.Sequential(Foreign()), torch.randn(2, 3)
    weight, expected = model[0].weight, model(x)
    register_layer(kind, adapter)
    variational(model, log_alpha=-60.0, clip=None)
    assert type(model[0]) is Linear and model[0].mu is weight
    torch.testing.assert_close(model(x), expected)


def test_a_look_alike_of_a_library_that_is_not_imported(table):
    """GPT-2's layer is known by its import path alone."""

    class Conv1D(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.zeros(4))

    Conv1D.__module__, Conv1D.__qualname__ = "transformers.pytorch_utils", "Conv1D"
    layer = variational(Conv1D(), param="neuron")
    assert type(layer) is LinearTransposed and layer.log_alpha.shape == (4,)


@pytest.mark.parametrize(
    "call, key, words",
    [
        (lambda: register_layer("Linear", Linear), "kind", ["import path"]),
        (lambda: register_layer(Foreign, nn.Linear), "adapter", ["varnet.Linear"]),
        (lambda: register_layer(Foreign, None), "adapter", ["a function"]),
    ],
)
def test_what_cannot_be_registered(table, call, key, words):
    assert_refused(call, key, *words)


def test_a_function_that_gives_no_layer_of_torch(table):
    register_layer(Foreign, lambda module: nn.ReLU())
    assert_refused(lambda: variational(Foreign()), "adapter", "Foreign", "gives a ReLU", "return a layer of torch")
