"""Networks of the paper: shapes, names, parameter counts, switches."""

import pytest
import torch
from torch import nn

from tests.nn.refused import assert_refused
from tests.statistics_helper import assert_mean
from varnet import predicting
from varnet.nn.layers import layers_of
from varnet.nn.networks import NETWORKS, build

SHAPES = {"lenet5": (1, 28, 28), "lenet300": (1, 28, 28), "vgg": (3, 32, 32), "fc": (1, 28, 28), "toy": (2,)}


def build_small(name: str, **options) -> nn.Module:
    return build(name, SHAPES[name], 10, width=0.125 if name in ("vgg", "fc") else 1.0, **options)


@pytest.mark.parametrize("param", ["zero_mean", "layer", "neuron", "weight", "additive", "deterministic"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_with_every_parameterization(name, param):
    model = build_small(name, param=param, layers="all")
    out = model(torch.randn(2, *SHAPES[name]))
    assert out.shape == (2, 10)
    out.sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize(
    "name, variational, parameters",
    [
        ("lenet5", ["dense1"], 430_500 + 1 + 2 * (20 + 50 + 500)),  # 430,500 weights, one log alpha, batch norm
        ("lenet300", ["dense1", "dense2", "dense3"], 266_610 + 3),
        ("fc", ["dense1", "dense2", "dense3", "dense4"], 785_000 + 2 * 1_001_000 + 10_010 + 4),
        ("toy", ["dense5"], 300 + 3 * 10_100 + 202 + 300 + 404 + 1),
        ("vgg", ["conv11", "conv12", "conv13", "dense1"], 14_991_946 + 4),
    ],
)
def test_published_networks(name, variational, parameters):
    classes = 4 if name == "toy" else 10
    model = build(name, SHAPES[name], classes)
    assert list(layers_of(model)) == variational
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_vgg_has_dropout_where_published():
    """After conv1 (0.3), conv3, conv5, conv6, conv8, conv9 (0.4) and before dense1 and dense2 (0.5)."""
    names = list(dict(build_small("vgg").named_children()))
    places = [names[i - 1] for i, n in enumerate(names) if n.startswith("dropout")]
    assert places == [f"{n}_act" for n in ["conv1", "conv3", "conv5", "conv6", "conv8", "conv9", "conv13", "dense1"]]
    rates = [m.p for m in build_small("vgg") if isinstance(m, nn.Dropout)]
    assert rates == [0.3, 0.4, 0.4, 0.4, 0.4, 0.4, 0.5, 0.5]
    assert not any(isinstance(m, nn.Dropout) for m in build_small("vgg", dropout=False))


def test_lenet5_dropout_is_before_both_dense_layers():
    model = build_small("lenet5", dropout=True)
    names = list(dict(model.named_children()))
    assert names[names.index("dropout1") :] == [
        "dropout1", "flatten", "dense1", "dense1_norm", "dense1_act", "dropout2", "dense2",
    ]  # fmt: skip
    assert model.dropout1.p == model.dropout2.p == 0.5


@pytest.mark.parametrize("factor", [1, 0.5, 0.1])
def test_a_number_multiplies_the_published_rates(factor):
    published = [m.p for m in build_small("vgg") if isinstance(m, nn.Dropout)]
    found = [m.p for m in build_small("vgg", dropout=factor) if isinstance(m, nn.Dropout)]
    assert found == pytest.approx([factor * p for p in published])
    assert build_small("lenet5", dropout=factor).dropout2.p == pytest.approx(0.5 * factor)


@pytest.mark.parametrize("chosen", ["dense1", ["dense1"], ["dense2", "dense1"], ["conv2", "dense2"]])
def test_dropout_before_chosen_layers_alone(chosen):
    model = build_small("vgg", dropout=chosen)
    names = [n for n in dict(model.named_children()) if n != "flatten"]
    found = [names[i + 1] for i, n in enumerate(names) if n.startswith("dropout")]
    assert sorted(found) == sorted([chosen] if isinstance(chosen, str) else chosen)


def test_weights_of_a_given_standard_deviation():
    torch.manual_seed(0)
    model = build("lenet5", (1, 28, 28), 10, bias=True, batch_norm=False, layers="all", param="additive", init=0.01)
    for layer in layers_of(model).values():
        assert_mean(layer.mu.detach().flatten()[:, None] / 0.01, torch.zeros(1))
        assert_mean((layer.mu.detach().flatten()[:, None] / 0.01).square(), torch.ones(1))
        assert (layer.bias == 0).all()


@pytest.mark.parametrize("in_shape, features", [((1, 28, 28), 800), ((3, 32, 32), 1250), ((1, 16, 16), 50)])
def test_input_size_is_inferred(in_shape, features):
    model = build("lenet5", in_shape, 7)
    assert model.dense1.in_features == features
    assert model(torch.randn(2, *in_shape)).shape == (2, 7)


def test_switches():
    model = build("lenet5", (1, 28, 28), 10, bias=True, batch_norm=["dense1"], activation="tanh", layers=["conv2"])
    assert model.conv1.bias is not None and not hasattr(model, "conv1_norm") and hasattr(model, "dense1_norm")
    assert isinstance(model.conv1_act, nn.Tanh) and list(layers_of(model)) == ["conv2"]
    assert not any(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in build_small("vgg", batch_norm=False))
    assert build("fc", (2,), 3, sizes=[5, 6]).dense3.in_features == 6
    assert build("vgg", (3, 32, 32), 10, width=0.25).conv13.out_channels == 128
    assert isinstance(build("lenet300", (1, 28, 28), 10, activation="leaky_relu").dense1_act, nn.LeakyReLU)
    assert not layers_of(build("lenet5", (1, 28, 28), 10, layers="none"))


def test_tanh_without_biases_keeps_the_distribution_symmetric():
    """Appendix C: the mean activation after a variance layer is 0. A shift learned by batch norm would be a bias."""
    for affine in (False, True):
        model = build("lenet5", (1, 28, 28), 10, param="zero_mean", activation="tanh", affine=affine).eval()
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # as training would make them
                nn.init.constant_(parameter, 0.3)
        x = torch.rand(1, 1, 28, 28).expand(4000, -1, -1, -1)
        with torch.no_grad():
            hidden = model[: list(dict(model.named_children())).index("dense2")](x)
        if not affine:
            assert_mean(hidden, torch.zeros(500))
        assert (hidden.mean().abs() > 0.1) == affine


def test_pooling_before_the_activation_is_the_same_function():
    model = build("lenet5", (1, 28, 28), 10, layers="none", activation="tanh").eval()
    x = torch.randn(2, 1, 28, 28)
    h = nn.functional.max_pool2d(model.conv1_act(model.conv1_norm(model.conv1(x))), 2)
    h = nn.functional.max_pool2d(model.conv2_act(model.conv2_norm(model.conv2(h))), 2)
    h = model.dense2(model.dense1_act(model.dense1_norm(model.dense1(h.flatten(1)))))
    torch.testing.assert_close(model(x), h)


def test_options_reach_the_layers():
    model = build("lenet5", (1, 28, 28), 10, param="zero_mean", noise="bernoulli", learn="log_sigma")
    assert model.dense1.param.noise == "bernoulli" and hasattr(model.dense1, "log_sigma")
    with predicting(model, "deterministic"):
        out = model(torch.randn(3, 1, 28, 28))
    assert torch.equal(out, out[:1].expand_as(out))


@pytest.mark.parametrize(
    "arguments, options, key, words",
    [
        (("lenet6", (1, 28, 28), 10), {}, "name", ["=lenet6", "fc, lenet300, lenet5, toy, vgg"]),
        (("vgg", (1, 28, 28), 10), {}, "name", ["=vgg", "at least 32x32 pixels", "choose another dataset or size"]),
        (("lenet5", (2,), 10), {}, "name", ["=lenet5", "at least 16x16 pixels", "shape (2,)", "or model=fc"]),
        (("vgg", (3, 32, 32), 10), {"width": -1}, "width", ["=-1", "above 0"]),
        (("vgg", (3, 32, 32), 10), {"width": "wide"}, "width", ["=wide", "use a finite number"]),
        (("fc", (-4,), 3), {}, "in_shape", ["(-4,)", "whole numbers above 0"]),
        (("fc", (2,), 0), {}, "classes", ["=0", "a whole number from 1"]),
        (("fc", (2,), 2), {"sizes": [0]}, "sizes", ["[0]", "whole numbers above 0"]),
        (("toy", (2,), 2), {"sizes": [3]}, "sizes", ["[3]", "is an option of model=fc"]),
        (("lenet5", (1, 28, 28), 10), {"activation": "gelu"}, "activation", ["=gelu", "relu, tanh, leaky_relu"]),
        (("lenet5", (1, 28, 28), 10), {"layers": ["conv9"]}, "layers", ["'conv9'", "choose from: conv1, conv2"]),
        (("lenet5", (1, 28, 28), 10), {"dropout": ["conv2"]}, "dropout", ["before 'conv2'", "choose from: dense1, "]),
        (("vgg", (3, 32, 32), 10), {"dropout": 1.5}, "dropout", ["=1.5", "a number above 0 up to 1"]),
        (("vgg", (3, 32, 32), 10), {"dropout": 0.0}, "dropout", ["=0.0", "a number above 0 up to 1"]),
        (("vgg", (3, 32, 32), 10), {"dropout": []}, "dropout", ["=[]", "names of the layers"]),
        (("lenet5", (1, 28, 28), 10), {"batch_norm": ["dense9"]}, "batch_norm", ["'dense9'", "choose from: conv1"]),
    ],
)
def test_one_clear_error(arguments, options, key, words):
    assert_refused(lambda: build(*arguments, **options), key, *words)
