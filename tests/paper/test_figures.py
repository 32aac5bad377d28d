"""Figures from finished runs, and what is read off them."""

import json
from pathlib import Path

import pytest
import torch

from tests.composing import tiny
from varnet.cli.train import run
from varnet.data.sets.toy import toy
from varnet.paper import fig1, fig4, fig5, fig9, transition
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
