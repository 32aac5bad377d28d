"""Figures from finished runs, and what is read off them."""

import json
from pathlib import Path

import pytest
import torch

from tests.composing import tiny
from varnet.cli.train import run
from varnet.data.sets.toy import toy
from varnet.paper import by_alpha, fig1, fig4, fig5, fig9, transition
from varnet.runs.folder import folder_of
from varnet.runs.opening import open_finished


def test_the_noise_of_figure_1_is_not_that_of_its_points():
    """Both are normal numbers of one shape: with one seed they were the same, and the clouds were skewed."""
    noise = torch.randn(2000, 2, generator=torch.Generator().manual_seed(fig1.NOISE_SEED))
    points = toy(0)["train_x"].reshape(4, 500, 2)
    points = (points - points.mean(1, keepdim=True)).reshape(2000, 2)
    assert abs(float((noise * points).mean())) < 0.1


def test_kinds_of_representation():
    assert fig1.representation([[1.0, 10.0, 100.0], [3.0, 20.0, 500.0]]) == "repeat"
    assert fig1.representation([[1.0, 10.0, 11.0], [3.0, 21.0, 20.0]]) == "repeat", "a tie is no other order"
    assert fig1.representation([[0.1, 300.0, 0.5, 1e4], [0.1, 3.0, 2e3, 2e3]]) == "orthogonal"


def test_where_the_transition_is():
    accuracies = [(99, 10), (99, 60), (40, 98), (10, 99)]
    history = [
        {"epoch": i + 1, "acc_det": det, "acc_zero_mean_k": zero, "acc_k": 99}
        for i, (det, zero) in enumerate(accuracies)
    ]
    assert list(transition.transition(history).values()) == [2, 3]


@pytest.mark.usefixtures("unpictured")
def test_figures_from_a_real_run(tmp_path):
    cfg = tiny(tmp_path, "param=zero_mean", "schedule.epochs=2")
    run(cfg)
    opened = open_finished(Path(folder_of(cfg)))
    for figure, numbers, *_ in (
        fig4.weight_samples(opened, averages=2, samples=3),
        fig5.pruning(opened, samples=2),
        fig9.class_densities(opened),
    ):
        assert figure.axes and numbers
    history = [json.loads(line) for line in (folder_of(cfg) / "history.jsonl").read_text().splitlines()]
    metrics = json.loads((folder_of(cfg) / "metrics.json").read_text())
    figure, *_ = transition.phase_transition({"loguniform": [(history, metrics)] * 2})
    assert len(figure.axes) == 2


def test_curves_average_only_runs_evaluated_at_the_same_epochs():
    def lines(evaluated: dict[int, float], shift: float) -> list[dict]:
        return [
            {"epoch": e, "acc_k": evaluated.get(e), "log_alpha": {"dense1": {"mean": e + shift}}} for e in range(1, 5)
        ]

    often, seldom = lines({1: 10.0, 2: 20.0, 4: 40.0}, 0.0), lines({2: 90.0, 3: 90.0, 4: 90.0}, 2.0)
    figure, *_ = transition.phase_transition({"x": [(often, {"samples": 20}), (seldom, {"samples": 20})]})
    top, bottom = figure.axes
    assert [line.get_label() for line in top.lines] == ["20 samples (n = 1)"]
    assert list(top.lines[0].get_xdata()) == [1, 2, 4] and list(top.lines[0].get_ydata()) == [10, 20, 40]
    assert bottom.lines[0].get_label() == "dense1" and list(bottom.lines[0].get_ydata()) == [2, 3, 4, 5]


def history_by_hand() -> list[dict]:
    """Two layers; evaluated at three of four epochs. Log alpha of dense1 falls again at the end."""
    found = [
        ((-2.0, 0.0), 90, 10, 91),
        ((1.0, 2.0), None, None, None),
        ((4.0, 3.0), 30, 70, 92),
        ((6.0, 2.5), 10, 90, 93),
    ]
    return [
        {
            "epoch": i + 1, "acc_det": det, "acc_1": samples, "acc_k": samples, "acc_zero_mean_k": zero,
            "log_alpha": {"conv1": {"mean": conv}, "dense1": {"mean": dense}},
        }
        for i, ((conv, dense), det, zero, samples) in enumerate(found)
    ]  # fmt: skip


def test_curves_against_log_alpha():
    runs = {"loguniform": [(history_by_hand(), {"samples": 20})] * 2, "ard": [(history_by_hand(), {"samples": 20})]}
    figure, numbers, *_ = by_alpha.against_log_alpha(runs)
    mean, dense = figure.axes
    assert len(mean.lines) == len(dense.lines) == 3 * 4, "a line for each seed and prediction"
    assert [list(axis.lines[0].get_xdata()) for axis in (mean, dense)] == [[-1.0, 3.5, 4.25], [0.0, 3.0, 2.5]]
    assert list(mean.lines[0].get_ydata()) == [90, 30, 10], "the order of training, though log alpha falls"
    assert (
        {line.get_linestyle() for line in mean.lines[:8]} == {"-"} != {line.get_linestyle() for line in mean.lines[8:]}
    )
    shown = [text.get_text() for text in dense.get_legend().get_texts()]
    assert shown[0] == "deterministic" and shown[-2:] == ["loguniform (n = 2)", "ard (n = 1)"]
    between = {"mean": [-1.0, 3.5], "dense1": [0.0, 3.0]}
    assert list(numbers["ard"].values()) == [between, between]


def test_a_transition_that_is_not_in_the_curves_has_no_log_alpha():
    never = [row | {"acc_det": 90, "acc_zero_mean_k": 10} for row in history_by_hand() if row["acc_k"]]
    assert list(by_alpha.crossings(never).values()) == [{"mean": None, "dense1": None}] * 2
    always = [row | {"acc_det": 10, "acc_zero_mean_k": 90} for row in history_by_hand() if row["acc_k"]]
    assert by_alpha.crossings(always)["zero-mean accuracy above half of the best between log alpha"] == {
        "mean": [None, -1.0], "dense1": [None, 0.0],
    }  # fmt: skip
