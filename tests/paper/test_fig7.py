"""Figure 7: the runs that it needs, its rows, and drawing it from real runs, also where it was stopped."""

import json
from pathlib import Path

import pytest
import torch

from tests.composing import TINY
from tests.conftest import PICTURE
from varnet.attack import robustness
from varnet.attack.gradient import Attack, Pixels
from varnet.attack.rates import WHITE_BOX, line
from varnet.cli import reproduce
from varnet.cli.train import run
from varnet.evaluation.ensemble import Ensemble
from varnet.evaluation.predictions import predict
from varnet.launch.queue import Job
from varnet.paper import fig7
from varnet.paper.library import Library
from varnet.paper.reproduction import jobs_of
from varnet.runs.opening import open_finished
from varnet.train.trainer import Trainer


def test_rows_of_the_table():
    successes = [torch.tensor([[0, 0], [1, 0], [1, 1]]).bool(), torch.tensor([[0, 0], [0, 0], [1, 1]]).bool()]
    lines = [line("a", WHITE_BOX, successes, Attack()), line("a", "EOT, 50 samples", successes[:1], Attack())]
    rows = fig7.rows_of(lines, (1, 9), scale="small", command="c", commit="d", epochs=3)
    assert [(r.row, r.metric, r.mean, r.n) for r in rows] == [
        ("a", "successful attacks after 1 iterations, %", 25.0, 2),
        ("a", "successful attacks after 2 iterations, %", 100.0, 2),
        ("a (EOT, 50 samples)", "successful attacks after 1 iterations, %", 50.0, 1),
        ("a (EOT, 50 samples)", "successful attacks after 2 iterations, %", 100.0, 1),
    ]
    assert rows[0].std == pytest.approx(50 / 2**0.5) and rows[2].std is None and rows[0].published is None
    assert (rows[0].scale, rows[0].command, rows[0].epochs) == ("small", "c", 3) and "low" in rows[0].more


def test_the_runs_that_figure_7_needs():
    found = [(job.experiment, job.seed) for job in jobs_of(["fig7"], Library(1, "small"))]
    ensembles = ("small/fig7_cifar10_deterministic", "small/table2_cifar10_variance")
    assert sorted(found) == sorted(
        [*((e, s) for e in ensembles for s in range(5)), ("small/table2_cifar10_dropout", 0)]
    )
    assert Job("small/table2_cifar10_variance", 0).folder() in [
        job.folder() for job in jobs_of(["table2"], Library(1, "small"))
    ]
    for name, table in (("fig7_mnist_variance", "table1_zero_mean"), ("fig7_mnist_dropout", "table2_mnist_dropout")):
        assert Job(name, 3).folder() == Job(table, 3).folder()


@pytest.fixture(scope="module")
def changes(tmp_path_factory) -> tuple[str, ...]:
    """The overrides of runs of two steps, two of each network of an ensemble."""
    changes = ("dataset=digits", *TINY, f"out_dir={tmp_path_factory.mktemp('runs')}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "figure", lambda self: PICTURE)
        for name, count in {"deterministic": 2, "dropout": 1, "variance": 2}.items():
            for seed in range(count):
                run(Job(f"fig7_mnist_{name}", seed, changes).config())
    return changes


def test_figure_7_from_real_runs(changes, tmp_path, monkeypatch, capsys):
    """After two steps of training nothing need be right in every network: all images are taken."""
    library = Library(1, "full", changes, recorded=tmp_path / "out" / "runs")
    monkeypatch.setattr(robustness, "right_before", lambda models, x, y, samples, seed: torch.ones(len(y)).bool())
    monkeypatch.setattr(fig7.draw, "__defaults__", (Attack(iterations=2, samples=2), 6, 3))
    assert reproduce.write(["fig7_mnist"], library, tmp_path / "out") == ["fig7_mnist"]
    rows = json.loads((tmp_path / "out" / "fig7_mnist.json").read_text())
    names = {row["row"] for row in rows}
    assert {"deterministic", "dropout", "variance", "deep ensemble of 2", "variance ensemble of 2"} <= names
    assert {"variance (EOT, 3 samples)", "variance (transfer from deterministic)"} <= names
    assert "deterministic (EOT, 3 samples)" not in names and "deterministic (transfer from deterministic)" in names
    assert all(row["images"] == 6 and row["published"] is None for row in rows)
    assert {row["n"] for row in rows if row["row"] in ("deterministic", "variance")} == {2}
    assert (tmp_path / "out" / "fig7_mnist.png").read_bytes().startswith(b"\x89PNG")
    assert "| deep ensemble of 2 |" in (tmp_path / "out" / "fig7_mnist.md").read_text()
    assert "deep ensemble of 2" in (tmp_path / "out" / "report.html").read_text()


def test_figure_7_goes_on_where_it_was_stopped(tmp_path, monkeypatch, capsys):
    def lines(file: Path, of: object, commit: str = "abc") -> list[dict]:
        monkeypatch.setattr("varnet.paper.fig7.commit", lambda: commit)
        return fig7.Kept(file, of).lines

    found = [{"network": name, "attack": WHITE_BOX, "rate": [0.0, 1 / 3]} for name in "ab"]
    file, of = tmp_path / "out" / "fig7.part.json", [vars(Attack()), {"a": [{"nll": float("nan")}]}]
    assert lines(file, of) == []
    kept = fig7.Kept(file, of)
    for one in found:
        kept.add(one)
    assert lines(file, of) == found and "b, white box: 0.3 % successful" in capsys.readouterr().out
    assert not lines(file, [vars(Attack(seed=1)), of[1]]) and not lines(file, of, "abd"), "another attack, other code"
    assert not lines(file, of, "abc-dirty") and not lines(None, of)
    for damaged in ("", "{", "[]", "{}", '{"of": null}'):
        file.write_text(damaged)
        assert lines(file, of) == []


@pytest.mark.usefixtures("undrawn")
def test_an_attack_that_was_stopped_is_not_lost(changes, tmp_path, monkeypatch):
    """The second call makes the lines that the first did not come to, and the file of the first goes away."""
    out = tmp_path / "out"
    library = Library(1, "full", changes, recorded=out / "runs")
    monkeypatch.setattr(fig7, "MEMBERS", 1)
    monkeypatch.setattr("varnet.paper.fig7.commit", lambda: "abc")
    monkeypatch.setattr(robustness, "right_before", lambda models, x, y, samples, seed: torch.ones(len(y)).bool())
    monkeypatch.setattr(fig7.draw, "__defaults__", (Attack(iterations=1, samples=2), 2, 3))
    attacked, real = [], robustness.white_box

    def white_box(model, *given):
        attacked.append(model)
        if len(attacked) == 3:
            raise KeyboardInterrupt
        return real(model, *given)

    monkeypatch.setattr(robustness, "white_box", white_box)
    with pytest.raises(KeyboardInterrupt):
        reproduce.write(["fig7_mnist"], library, out)
    assert [file.name for file in out.glob("fig7*")] == ["fig7_mnist.part.json"]
    assert reproduce.write(["fig7_mnist"], library, out) == ["fig7_mnist"]
    assert len(attacked) == 3 + 3 + 3, "three of the white box were left, and EOT of three networks"
    assert not (out / "fig7_mnist.part.json").exists()
    numbers = json.loads((out / "fig7_mnist.numbers.json").read_text())
    assert [row["attack"] for row in numbers["lines"]].count(WHITE_BOX) == 5


def test_networks_of_figure_7_take_raw_pixels(changes):
    opened = open_finished(Job("fig7_mnist_deterministic", 0, changes).folder())
    found = fig7.networks({"deterministic": [opened], "variance": [opened]}, torch.device("cpu"))
    assert list(found) == ["deterministic", "variance", "deep ensemble of 1", "variance ensemble of 1"]
    batches = opened.data.loader("test", 20)
    expected = predict(opened.model, batches).log_probs
    raw = [(opened.data.test_x.float(), opened.data.test_y)]
    for model in (found["deterministic"][0], found["deep ensemble of 1"]):
        assert isinstance(model, Pixels | Ensemble)
        torch.testing.assert_close(predict(model, raw).log_probs, expected, rtol=1e-4, atol=1e-5)
