"""Sparse variational dropout: a weight past the threshold is 0 in every state, and is counted."""

import io

import pytest
import torch
from PIL import Image
from torch import nn

from tests.composing import tiny
from varnet import kl, predicting
from varnet.cli.train import run
from varnet.errors import ConfigError
from varnet.evaluation.sparsity import compression, kept, sparsity
from varnet.nn.layers import Conv2d, Linear
from varnet.paper.emptying import emptying
from varnet.runs.folder import folder_of
from varnet.runs.members import snapshots
from varnet.runs.opening import open_finished


def layer(kind: str, threshold: float | None = 3.0, param: str = "additive") -> Linear | Conv2d:
    torch.manual_seed(0)
    made = Linear(6, 4, param=param, threshold=threshold) if kind == "linear" else Conv2d(
        2, 4, 3, param=param, threshold=threshold
    )  # fmt: skip
    log_alpha = 6 * torch.rand(made.weight_shape)
    if param == "additive":
        made.log_sigma2.data = log_alpha + made.mu.data.square().log()
    else:
        made.log_alpha.data = log_alpha
    return made


def inputs(kind: str) -> torch.Tensor:
    return torch.randn(5, 6) if kind == "linear" else torch.randn(5, 2, 6, 6)


@pytest.mark.parametrize("param", ["additive", "weight"])
@pytest.mark.parametrize("kind", ["linear", "conv"])
@pytest.mark.parametrize("mode", ["sample", "zero_mean", "deterministic", "weights"])
def test_a_weight_past_the_threshold_is_zero(kind, param, mode):
    """The layer is the one in which those weights have been erased."""
    with_threshold, erased = layer(kind, param=param), layer(kind, threshold=None, param=param)
    gone = ~kept(with_threshold)
    assert 0.2 < gone.double().mean() < 0.8
    erased.param.erase(erased, gone)
    x = inputs(kind)
    outs = []
    for q in (with_threshold, erased):
        with torch.no_grad(), predicting(q, mode):
            torch.manual_seed(1)
            if mode == "weights":
                q.resample()
            outs.append(q(x))
    torch.testing.assert_close(*outs, atol=1e-6, rtol=1e-5)


def test_removed_weights_get_no_gradient_from_the_data_and_one_from_the_kl():
    q = layer("linear")
    gone = ~kept(q)
    q(inputs("linear")).square().sum().backward()
    assert (q.mu.grad[gone] == 0).all() and (q.log_sigma2.grad[gone] == 0).all() and (q.mu.grad[~gone] != 0).any()
    q.zero_grad()
    kl(q).backward()
    assert (q.log_sigma2.grad[gone] != 0).all()


def test_counts():
    model = nn.Sequential(layer("linear"), nn.ReLU(), layer("linear", threshold=None))
    model[0].log_sigma2.data = model[0].mu.data.square().log() + torch.where(torch.arange(24).view(4, 6) < 6, 0.0, 5.0)
    assert sparsity(model)["0"] == pytest.approx(75.0)
    assert sparsity(model, threshold=6.5)["0"] == pytest.approx(0.0)
    left = 6 + int(kept(model[2]).sum())
    assert compression(model) == pytest.approx(48 / left)
    assert compression(nn.Sequential(layer("linear")), threshold=-30.0) == 24.0  # nothing left


@pytest.mark.parametrize("param", ["layer", "neuron", "zero_mean", "deterministic", "gaussian_dropout"])
def test_a_threshold_needs_an_alpha_for_each_weight(param):
    with pytest.raises(ValueError, match="threshold=3"):
        Linear(3, 2, param=param, threshold=3.0, prior="none")


def test_a_run_logs_its_sparsity(tmp_path):
    metrics = run(tiny(tmp_path, "experiment=sparse_lenet300", "param.log_sigma=1.0"))
    assert set(metrics["sparsity"]) == {"dense1", "dense2", "dense3"} and metrics["sparsity"]["dense1"] > 50
    assert metrics["compression"] > 1 and 0 <= metrics["train_acc_det"] <= 100


def test_the_animation_of_a_run(tmp_path):
    cfg = tiny(tmp_path, "experiment=sparse_lenet300", "schedule.epochs=2", "snapshots=[1,2]", "param.log_sigma=1.0")
    run(cfg)
    drawn = emptying(open_finished(folder_of(cfg)))
    assert len(drawn.figure.axes) == 2 and set(drawn.numbers["sparsity by epoch, %"]) == {1, 2}
    with Image.open(io.BytesIO(drawn.gif)) as gif:
        assert gif.format == "GIF" and gif.n_frames == 2
    for path in snapshots(folder_of(cfg)):
        path.unlink()
    with pytest.raises(ConfigError, match="no snapshots"):
        emptying(open_finished(folder_of(cfg)))


def by_hand(kind: str, removed: str | None) -> Linear | Conv2d:
    """Means 2, 1 and 0.5, variances 1: log alpha is -1.39, 0 and 1.39, and only the first is below the threshold."""
    made = Linear(3, 1, bias=False, param="additive", threshold=-1.0, removed=removed) if kind == "linear" else Conv2d(
        3, 1, 1, bias=False, param="additive", threshold=-1.0, removed=removed
    )  # fmt: skip
    made.mu.data = torch.tensor([2.0, 1.0, 0.5]).view(made.weight_shape)
    made.log_sigma2.data.zero_()
    return made


@pytest.mark.parametrize("kind", ["linear", "conv"])
@pytest.mark.parametrize("removed", [None, "mean", "mean_of_dense"])
def test_what_removed_weights_lose(kind, removed):
    """Inputs 1, 2, 3: the mean is 1 * 2 in any case, the variance 1 + 4 + 9 where removed weights keep their noise."""
    q = by_hand(kind, removed)
    x = torch.tensor([[1.0, 2.0, 3.0]]).view((1, 3) if kind == "linear" else (1, 3, 1, 1))
    noisy = removed == "mean" or (removed == "mean_of_dense" and kind == "linear")
    mean, variance = (moment.detach() for moment in q.moments(x))
    assert float(mean) == 2.0 and float(variance) == pytest.approx(14.0 if noisy else 1.0)
    with torch.no_grad(), predicting(q, "deterministic"):
        assert float(q(x)) == 2.0
    with torch.no_grad(), predicting(q, "weights"):
        assert (q.weight.flatten()[1:] != 0).tolist() == [noisy, noisy]
    assert kept(q).flatten().tolist() == [True, False, False], "they are counted as removed"
    assert q.removed().flatten().tolist() == [False, not noisy, not noisy]
    q(x).sum().backward()
    assert q.mu.grad.flatten().tolist() == [1.0, 0.0, 0.0]
    assert (q.log_sigma2.grad.flatten() != 0).tolist() == [True, noisy, noisy]


@pytest.mark.usefixtures("unpictured")
def test_the_authors_treatment_trains(tmp_path):
    """All of its options at once reach the network and the schedule; removed weights are counted as before."""
    options = ["param.removed=mean_of_dense", "schedule.decay_from=1", "model.init=0.01", "param.clip=[-8,8]"]
    cfg = tiny(tmp_path, "experiment=sparse_lenet5", *options, "schedule.epochs=2")
    metrics = run(cfg)
    model = open_finished(folder_of(cfg)).model
    assert [q.keeps_noise for q in (model.conv1, model.conv2, model.dense1, model.dense2)] == [False, False, True, True]
    assert metrics["sparsity"] == pytest.approx(sparsity(model)) and metrics["compression"] >= 1
