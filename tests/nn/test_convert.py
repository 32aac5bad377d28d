"""Any nn.Module becomes variational and stays what it was in deterministic mode; converged layers lose their means."""

import copy
import math

import pytest
import torch
import torchvision
from torch import nn
from torch.nn.utils.prune import l1_unstructured

from tests.nn.refused import assert_refused
from tests.statistics_helper import assert_mean, assert_variance
from varnet import collapse, kl, predicting, variational
from varnet.nn.layers import Conv2d, Linear, layers_of
from varnet.nn.names import select
from varnet.nn.params import LayerWise
from varnet.nn.theorem1 import mmd_bound


@pytest.mark.parametrize("layers", ["all", ["layer4", "fc"], "layer4.*.conv2"])
def test_resnet18_predicts_exactly_what_it_did(layers):
    model = torchvision.models.resnet18().eval()
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        before = model(x)
        converted = variational(model, layers=layers, param="neuron", prior="ard")
        assert converted is model
        with predicting(model, "deterministic"):
            assert torch.equal(model(x), before)
        assert not torch.equal(model(x), before)
    assert kl(model) > 0
    counts = {"all": 21, "layer4.*.conv2": 2}
    assert len(layers_of(model)) == (counts[layers] if isinstance(layers, str) else 6)


def test_a_converted_resnet_trains():
    model = variational(torchvision.models.resnet18(num_classes=5), layers=["layer4", "fc"]).train()
    optimizer = torch.optim.Adam(model.parameters())
    loss = nn.functional.cross_entropy(model(torch.randn(4, 3, 32, 32)), torch.randint(5, (4,))) + 1e-6 * kl(model)
    loss.backward()
    optimizer.step()
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert model.fc.log_alpha.grad is not None


def test_a_transformer_layer():
    """Code that reads `.weight` of its layers, as attention does, gets the weights of the layer's state."""
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        before = model(x)
        variational(model, log_alpha=-1.0)
        with predicting(model, "deterministic"):
            torch.testing.assert_close(model(x), before)
        assert not torch.allclose(model(x), model(x))
    model.train()(x).sum().backward()
    assert model.self_attn.out_proj.mu.grad is not None


def test_parameters_are_taken_over():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    weight, bias = model[0].weight, model[0].bias
    variational(model, "0")
    assert model[0].mu is weight and model[0].bias is bias
    assert isinstance(model[0], Linear) and type(model[1]) is nn.Linear


def test_a_bare_layer_and_a_shared_layer():
    assert isinstance(variational(nn.Linear(2, 3)), Linear)
    assert isinstance(variational(nn.Conv2d(2, 3, 1)), Conv2d)
    shared = nn.Linear(3, 3)
    model = variational(nn.Sequential(shared, nn.ReLU(), shared))
    assert model[0] is model[2] and isinstance(model[0], Linear)


def test_names_of_a_shared_layer_and_patterns():
    shared = nn.Linear(3, 3)
    model = variational(nn.Sequential(shared, nn.ReLU(), shared), layers="2")
    assert model[0] is model[2] and isinstance(model[0], Linear)
    assert isinstance(variational(nn.Linear(2, 2), layers="*"), Linear)


class Scaled(nn.Linear):
    def forward(self, x):
        return 10 * super().forward(x)


def test_what_cannot_be_carried_over_is_left_or_refused():
    with pytest.warns(UserWarning, match=r"leaves 1 with weights as they are: 0 \(Scaled: .*varnet.register_layer"):
        model = variational(nn.Sequential(Scaled(2, 2), nn.Linear(2, 2)))
    assert type(model[0]) is Scaled and isinstance(model[1], Linear)
    recurrent = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.LSTM(2, 2), "weight_hh_l0"))
    assert_refused(lambda: variational(recurrent), None, "'0'", "computes its weight", "remove that")
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)))
    assert_refused(lambda: variational(normed), None, "'0'", "computes its weight", "remove that")
    pruned = nn.Sequential(nn.Linear(4, 4))
    l1_unstructured(pruned[0], "weight", 0.5)
    assert_refused(lambda: variational(pruned), None, "'0'", "remove")


def test_device_dtype_mode_and_frozen_weights_are_kept():
    module = nn.Sequential(nn.Linear(3, 2).double())
    module[0].weight.requires_grad_(False)
    layer = variational(module.eval())[0]
    assert layer.mu.dtype == torch.double and layer.log_alpha.dtype == torch.double
    assert not layer.training and not layer.mu.requires_grad and layer.log_alpha.requires_grad


def test_zero_mean_conversion_keeps_the_scale():
    module = nn.Linear(3, 2)
    layer = variational(module, param="zero_mean")
    torch.testing.assert_close(layer.posterior().variance, module.weight.detach() ** 2)


def test_converting_twice_leaves_variational_layers_alone():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    variational(model, "0", param="weight")
    variational(model, "1", param="additive")
    assert [m.param.name for m in model] == ["weight", "additive"]


@pytest.mark.parametrize(
    "call, key, words",
    [
        (lambda: variational(nn.Sequential(nn.Linear(2, 2)), "conv9"), "layers", ["conv9", "choose from: 0"]),
        (lambda: variational(nn.ReLU()), None, ["ReLU", "nn.Conv2d or nn.Conv3d", "or nn.Linear"]),
        (lambda: variational(nn.Sequential(nn.Linear(2, 2)), [3]), "layers", ["[3]", "use all, none, a name"]),
        (lambda: variational(nn.Linear(2, 2), prior="flat"), "prior", ["=flat", "ard, gaussian, loguniform"]),
        (lambda: variational(nn.Linear(2, 2), "none", param="layr"), "param", ["=layr", "additive, deterministic"]),
        (lambda: variational(nn.Linear(2, 2), param=LayerWise(), log_alpha=3.0), "param", ["log_alpha", "with a name"]),
        (lambda: variational(nn.Linear(2, 2), layers=None), "layers", ["=null", "use all, none, a name"]),
        (lambda: collapse(nn.Linear(2, 2), threshold="high"), "threshold", ["=high", "use a number"]),
    ],
)
def test_one_clear_error(call, key, words):
    assert_refused(call, key, *words)


def test_an_error_leaves_the_module_as_it_was():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
    with pytest.raises(ValueError):
        variational(model, param="neuron", log_alpha=torch.zeros(2))  # fits the first layer only
    assert all(type(m) is nn.Linear for m in model)


def test_select():
    names = ["conv1", "layer4.0.conv1", "layer4.1.conv1", "fc"]
    assert select("all", names) == names
    assert select("none", names) == []
    assert select(["fc", "layer4"], names) == ["layer4.0.conv1", "layer4.1.conv1", "fc"]
    assert select("layer4.?.conv1", names) == names[1:3]


@pytest.mark.parametrize("param", ["layer", "neuron", "weight", "additive"])
def test_collapse_keeps_the_variances(param):
    layer = variational(nn.Linear(6, 4), param=param, log_alpha=9.0, prior="loguniform")
    model = nn.Sequential(layer, nn.ReLU(), variational(nn.Linear(4, 2), log_alpha=-3.0))
    x = torch.randn(1, 6)
    variance = layer.posterior().variance.detach().clone()
    bound = mmd_bound(layer)
    report = collapse(model, threshold=5.0)
    assert [row.collapsed for row in report] == [True, False]
    assert [row.name for row in report] == ["0", "2"]
    assert report[0].mmd_bound == pytest.approx(2 * math.erf(math.sqrt(24 / 8) * math.exp(-4.5)), rel=1e-5)
    assert report[0].mmd_bound == bound and report[0].log_alpha == pytest.approx(9.0, abs=1e-4)
    assert model[0].param.name == "zero_mean" and model[2].param.name == "layer"
    torch.testing.assert_close(model[0].posterior().variance, variance)
    assert set(dict(model[0].named_parameters())) == {"sigma", "bias"}
    with torch.no_grad():
        samples = model[0](x.expand(20_000, -1))
    assert_mean(samples, model[0].bias.detach())
    assert_variance(samples, (x**2 @ variance.T)[0])
    assert "yes" in str(report) and "no" in str(report)
    assert collapse(model)[0].mmd_bound == 0


def test_a_layer_with_mixed_alphas():
    layer = variational(nn.Linear(3, 2), param="neuron", log_alpha=torch.tensor([2.0, 14.0]))
    distance = math.sqrt(3 * (math.exp(-2) + math.exp(-14)))
    assert mmd_bound(layer) == pytest.approx(2 * math.erf(distance / math.sqrt(8)), rel=1e-6)
    model = nn.Sequential(layer)
    assert not collapse(model, threshold=5.0)[0].collapsed  # the mean is 8, but one unit still has a mean
    assert collapse(model, threshold=1.5)[0].collapsed


def test_collapse_with_a_clip_that_excludes_the_default_start():
    model = nn.Sequential(variational(nn.Linear(3, 2), log_alpha=6.0, clip=(0, 20)))
    assert collapse(model)[0].collapsed and hasattr(model[0], "sigma")


@pytest.mark.parametrize("log_alphas", [(-3.0,), (0.0,), (6.0,), (-1.0, 0.5), (1.0, -2.0, 3.0, 0.0)])
def test_mmd_bound_is_reached(log_alphas):
    """By the function that says which of the two densities is larger: no function bounded by 1 does better."""
    layer = Linear(len(log_alphas), 1, param="weight", log_alpha=torch.tensor([log_alphas]), dtype=torch.double)
    mean, variance, _ = layer.posterior()
    draws = mean + variance.sqrt() * torch.randn(400_000, len(log_alphas), dtype=torch.double)
    centred = draws - mean

    def sign(w):  # of log q(w) - log q0(w)
        return ((2 * w - mean) * mean / variance).sum(1).sign()

    assert_mean(sign(draws) - sign(centred), mmd_bound(layer))


def test_mmd_bound_is_the_papers_where_alpha_is_large_and_never_above_2_or_it():
    for log_alpha in (-20.0, -2.0, 0.0, 5.0, 12.0, 19.0):
        layer = Linear(70, 40, log_alpha=log_alpha)
        papers = math.sqrt(2 * 2800 / math.pi) * math.exp(-log_alpha / 2)
        assert mmd_bound(layer) <= min(2, papers) * (1 + 1e-6)
    assert mmd_bound(layer) == pytest.approx(papers, rel=1e-4)
    converged = collapse(nn.Sequential(Linear(800, 400, log_alpha=5.1)), threshold=5.0)
    assert converged[0].collapsed and 1.99 < converged[0].mmd_bound <= 2


# ---- sparse layers keep their zeros


def sparse(param: str, **options) -> Linear:
    """log alpha is 1, and 4 in the first column, which the threshold removes."""
    layer = Linear(3, 2, param=param, threshold=3.0, log_alpha=1.0, dtype=torch.double, **options)
    (layer.log_alpha if param == "weight" else layer.log_sigma2).data[:, 0] += 3.0
    return layer


@pytest.mark.parametrize("param", ["weight", "additive"])
def test_collapse_does_not_revive_what_the_threshold_removed(param):
    layer = sparse(param, bias=False)
    variance = layer.posterior().variance.detach().clone()
    x = torch.tensor([[2.0, 0.0, 0.0]], dtype=torch.double)  # sees removed weights only
    report = collapse(nn.Sequential(layer), threshold=0.5)
    assert report[0].collapsed and report[0].log_alpha == pytest.approx(1.0)
    assert report[0].mmd_bound == pytest.approx(2 * math.erf(math.sqrt(4 * math.exp(-1) / 8)))
    torch.testing.assert_close(layer.posterior().variance[:, 1:], variance[:, 1:])
    with predicting(layer, "weights"):
        assert (layer(x) == 0).all()
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    (layer(torch.randn(5, 3, dtype=torch.double)).square().sum() + layer.kl()).backward()
    optimizer.step()
    assert (layer.sigma[:, 0] == 0).all() and (layer.sigma[:, 1:] != 0).all()


@pytest.mark.parametrize("param", ["weight", "additive"])
def test_a_layer_without_any_weight_left_stays_empty(param):
    layer = Linear(3, 2, param=param, threshold=3.0, log_alpha=6.0)
    report = collapse(nn.Sequential(layer))
    assert report[0].collapsed and report[0].mmd_bound == 0 and report[0].log_alpha == math.inf
    with predicting(layer, "weights"):
        assert torch.equal(layer(torch.ones(1, 3))[0], layer.bias)


@pytest.mark.parametrize("param", ["layer", "weight", "additive"])
def test_collapse_keeps_pruned_weights_at_0(param):
    layer = Linear(3, 2, param=param, log_alpha=6.0)
    chosen = torch.tensor([[True, False, False], [False, False, True]])
    layer.param.erase(layer, chosen)
    report = collapse(nn.Sequential(layer))
    assert report[0].collapsed and report[0].log_alpha_min == pytest.approx(6.0, abs=1e-4)
    assert report[0].mmd_bound == pytest.approx(2 * math.erf(math.sqrt(4 * math.exp(-6.0) / 8)), rel=1e-5)
    assert torch.equal(layer.sigma == 0, chosen)


def test_a_collapsed_network_predicts_as_in_zero_mean_mode():
    model = variational(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)), "0", log_alpha=12.0)
    x = torch.randn(4, 5)
    collapsed = copy.deepcopy(model)
    collapse(collapsed)
    outs = []
    for net, mode in ((model, "zero_mean"), (collapsed, "sample")):
        torch.manual_seed(5)
        with torch.no_grad(), predicting(net, mode):
            outs.append(net(x))
    torch.testing.assert_close(*outs)
