"""Pruning removes the weights it should, exactly, and leaves the model that was given alone."""

import pytest
import torch
from torch import nn

from varnet import predicting
from varnet.evaluation.pruning import prune, pruning_curve
from varnet.nn.layers import Conv2d, Linear

PARAMS = ["zero_mean", "layer", "neuron", "weight", "additive"]


@pytest.mark.parametrize("param", PARAMS)
@pytest.mark.parametrize("kind", [lambda **o: Linear(7, 5, **o), lambda **o: Conv2d(2, 5, 3, **o)])
def test_a_pruned_weight_is_zero_in_mean_and_variance(param, kind):
    model = nn.Sequential(kind(param=param))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    pruned = prune(model, 0.4)
    gone = pruned[0].posterior().variance == 0
    assert gone.sum() == round(0.4 * gone.numel()) and (pruned[0].posterior().mean[gone] == 0).all()
    kept = ~gone
    torch.testing.assert_close(pruned[0].posterior().variance[kept], model[0].posterior().variance[kept])
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.isfinite(pruned[0].kl())


@pytest.mark.parametrize("param", PARAMS)
def test_everything_removed_leaves_the_bias(param):
    model = nn.Sequential(Linear(4, 3, param=param))
    with torch.no_grad(), predicting(prune(model, 1.0), "sample") as pruned:
        out = pruned(torch.randn(5, 4))
    torch.testing.assert_close(out, model[0].bias.detach().expand(5, 3), atol=1e-6, rtol=0)  # EPS under the root


def test_the_smallest_sigmas_go_first():
    model = nn.Sequential(Linear(3, 2, param="zero_mean", bias=False))
    model[0].sigma.data = torch.tensor([[1.0, -0.1, 2.0], [0.2, -3.0, 0.3]])
    assert (prune(model, 0.5)[0].sigma != 0).tolist() == [[True, False, True], [False, True, False]]


def test_the_smallest_signal_to_noise_goes_first_and_sigma_can_be_asked_for():
    model = nn.Sequential(Linear(2, 2, param="additive", bias=False))
    model[0].mu.data = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    model[0].log_sigma2.data = torch.tensor([[0.0, 4.0], [-2.0, 1.0]])  # |mu|/sigma: 1, 0.27, 8.2, 2.4
    assert (prune(model, 0.5)[0].mu != 0).tolist() == [[False, False], [True, True]]
    assert (prune(model, 0.5, by="sigma")[0].mu != 0).tolist() == [[False, True], [False, True]]


def test_chosen_layers():
    model = nn.Sequential(Linear(4, 4), nn.ReLU(), Linear(4, 2))
    pruned = prune(model, 1.0, layers=["2"])
    assert (pruned[0].mu != 0).all() and (pruned[2].mu == 0).all()


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (nn.Sequential(Linear(2, 2)), {"fraction": 1.5}, "fraction=1.5"),
        (nn.Sequential(Linear(2, 2)), {"fraction": 0.5, "by": "size"}, "by=size is invalid: use one of sigma, snr"),
        (nn.Sequential(Linear(2, 2)), {"fraction": 0.5, "layers": ["x"]}, "there is no layer 'x'"),
        (nn.Sequential(nn.Linear(2, 2)), {"fraction": 0.5}, "no variational layer"),
        (nn.Sequential(Linear(2, 2)), {"fraction": 0.5, "by": "snr"}, "the same ratio"),
        (nn.Sequential(Linear(2, 2, param="zero_mean")), {"fraction": 0.5, "by": "snr"}, "use sigma"),
        (nn.Sequential(Linear(2, 2, param="deterministic", prior="none")), {"fraction": 0.5}, "no noise"),
    ],
)
def test_wrong_input_is_one_sentence(model, options, words):
    with pytest.raises(ValueError, match=words):
        prune(model, **options)


def test_the_curve_falls_to_chance():
    torch.manual_seed(0)
    centres = 4 * torch.eye(3)
    y = torch.arange(300) % 3
    x = centres[y] + torch.randn(300, 3)
    model = nn.Sequential(Linear(3, 3, param="additive", bias=False))
    model[0].mu.data = torch.eye(3)
    model[0].log_sigma2.data.fill_(-8.0)
    rows = pruning_curve(model, [(x, y)], [0.0, 2 / 3, 1.0], samples=3)
    assert rows[0]["acc_k"] == rows[1]["acc_k"] > 95 and rows[0]["acc_det"] > 95
    assert rows[2]["acc_k"] == pytest.approx(100 / 3) and rows[2]["fraction"] == 1.0
