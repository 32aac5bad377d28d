"""Fixture folders -> the exact table; runs that are not finished are listed, not averaged."""

import csv
import io
import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.composing import composed
from varnet.base import plots
from varnet.base.text import in_picture
from varnet.cli import report as command
from varnet.errors import ConfigError
from varnet.report import groups as report
from varnet.runs.folder import folder_of

ACCURACY = {("layer", 0): 98.0, ("layer", 1): 99.0, ("layer", 2): 97.0, ("neuron", 0): 90.0}


def write_run(out: Path, *overrides: str, acc: float | None = None, epochs: int = 2, **metrics) -> Path:
    """A run's folder as train.py leaves it, with numbers of our choice."""
    cfg = composed("dataset=digits", "schedule.epochs=2", f"out_dir={out}", *overrides)
    folder = folder_of(cfg)
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra/config.yaml").write_text(OmegaConf.to_yaml(cfg, resolve=True))
    rows = [{"epoch": e, "acc_k": (acc or 0) - 2 + e, "elbo": -100.0 / e} for e in range(1, epochs + 1)]
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if acc is not None:
        values = {"acc_k": acc, "acc_zero_mean_k": None, "elbo": -10 * acc, "name": "x", "seed": cfg.seed} | metrics
        (folder / "metrics.json").write_text(json.dumps(values))
    return folder


@pytest.fixture
def sweep(tmp_path):
    """Three seeds of layer, one of neuron, and one of neuron that is not finished."""
    for (param, seed), acc in ACCURACY.items():
        write_run(tmp_path, f"param={param}", f"seed={seed}", acc=acc)
    write_run(tmp_path, "param=neuron", "seed=1", epochs=1)
    return tmp_path


def test_the_exact_table(sweep):
    runs = report.read([sweep])
    assert len(runs) == 5
    table = report.table(report.group(runs))
    assert table == [
        ["param", "n", "acc_k", "elbo"],
        ["layer", "3", "98.00 +- 1.00", "-980 +- 10"],
        ["neuron", "1", "90.00 +- -", "-900 +- -"],
    ]
    assert report.markdown(table) == (
        "| param | n | acc_k | elbo |\n|---|---|---|---|\n"
        "| layer | 3 | 98.00 +- 1.00 | -980 +- 10 |\n| neuron | 1 | 90.00 +- - | -900 +- - |\n"
    )
    assert report.as_csv(report.group(runs)) == (
        "param,n,acc_k_mean,acc_k_std,elbo_mean,elbo_std\nlayer,3,98.0,1.0,-980.0,10.0\nneuron,1,90.0,,-900.0,\n"
    )


def test_incomplete_runs_are_listed(sweep):
    (line,) = report.incomplete(report.read([sweep]))
    assert "digits_lenet5_neuron_loguniform/seed1-" in line and line.endswith(": 1 of 2 epochs")


def test_what_cannot_be_read_is_listed(tmp_path):
    folder = write_run(tmp_path, acc=90.0)
    (folder / ".hydra/config.yaml").write_text("schedule: [")
    cut = write_run(tmp_path, "seed=1", acc=91.0)
    (cut / "metrics.json").write_text('{"acc_k": 91')
    (cut / "history.jsonl").write_text('{"epoch": 1}\n{"epoch": 2, "acc')
    lines = report.incomplete(report.read([tmp_path]))
    assert lines == [f"{folder}: .hydra/config.yaml cannot be read", f"{cut}: 1 of 2 epochs"]
    assert report.group(report.read([tmp_path])) == []


def test_a_run_named_twice_counts_once(sweep):
    one = next(sweep.glob("*/seed0-*"))
    assert len(report.read([sweep, one, sweep])) == 5


def test_groups_differ_by_what_was_swept_and_not_by_what_comes_with_it(tmp_path):
    for i, overrides in enumerate([("prior=gaussian", "schedule.lr=0.01"), ("prior=gaussian",), ("prior=ard",)]):
        for seed in (0, 1):
            write_run(tmp_path, *overrides, f"seed={seed}", f"threads={seed + 1}", acc=90.0 + i)
    write_run(tmp_path, "prior=ard", "param.layers=[conv2,dense1]", acc=99.0)
    groups = report.group(report.read([tmp_path]))
    assert [list(one.label) for one in groups] == [["prior", "param.layers", "schedule.lr"]] * 4
    labels = {tuple(one.label.values()): (len(one.runs), one.mean("acc_k")) for one in groups}
    assert labels == {
        ("gaussian", None, 0.01): (2, 90.0), ("gaussian", None, 0.001): (2, 91.0), ("ard", None, 0.001): (2, 92.0),
        ("ard", '["conv2", "dense1"]', 0.001): (1, 99.0),
    }  # fmt: skip


def test_one_setting_has_no_label(tmp_path):
    write_run(tmp_path, acc=90.0)
    assert report.table(report.group(report.read([tmp_path]))) == [
        ["n", "acc_k", "elbo"],
        ["1", "90.00 +- -", "-900 +- -"],
    ]


def test_curves_are_cut_to_the_epochs_that_all_runs_have(sweep):
    first = next(iter(sweep.glob("*_layer_*/seed0-*")))
    (first / "history.jsonl").write_text('{"epoch": 2, "acc_k": 50.0}\n{"epoch": 3, "acc_k": 51.0}\n')
    layer = report.group(report.read([sweep]))[0]
    assert layer.curve("acc_k") == ([2], [[50.0], [99.0], [97.0]])
    assert layer.curve("acc_det") == ([], [[], [], []])


@pytest.mark.parametrize(
    "mean, std, text", [(3.14159, 0.12, "3.14 +- 0.12"), (-77858.3, 17.9, "-77858 +- 18"), (0.5, 0.0, "0.50 +- 0.00")]
)
def test_the_spread_decides_the_digits(mean, std, text, tmp_path):
    runs = [report.Run(tmp_path, {}, {"kl": mean + s * std / 2**0.5}, []) for s in (-1, 1)]
    assert report.cell(report.Group({}, runs), "kl") == text


@pytest.mark.parametrize("what, message", [("nowhere", "is not a folder"), (".", "holds no run")])
def test_wrong_folders(tmp_path, what, message):
    with pytest.raises(ConfigError, match=message):
        report.read([tmp_path / what])


def test_the_command(sweep, tmp_path, capsys):
    out = tmp_path / "report"
    assert command.main([str(sweep), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "98.00 +- 1.00" in printed and "not finished, not counted" in printed
    assert "1 of 2 epochs" in (out / "table.md").read_text() and "layer,3,98.0,1.0" in (out / "table.csv").read_text()
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert command.main(["nowhere"]) == 2
    assert capsys.readouterr().err.startswith("error: nowhere is not a folder")


NASTY = {"=1+1": "'=1+1", "+1": "'+1", "-x": "'-x", "@SUM(A1)": "'@SUM(A1)", "\t=1": "\\t=1", "a\x1b[2J": "a\\x1b[2J"}


@pytest.mark.parametrize("name, cell", NASTY.items())
def test_a_name_is_no_formula_and_moves_no_cursor(tmp_path, name, cell):
    run = report.read_run(write_run(tmp_path, acc=1.0))
    one = report.Group({"model.target": name, "param.threshold": -1.5}, [run])
    (line,) = list(csv.reader(io.StringIO(report.as_csv([one]))))[1:]
    assert line[:2] == [cell, "-1.5"]  # a number stays one
    text = report.markdown(report.table([one])) + report.incomplete([report.Run(tmp_path / name, {}, None, [])])[0]
    assert "\x1b" not in text and "\t" not in text


def test_a_name_in_a_picture_is_no_mathematics(tmp_path):
    run = report.read_run(write_run(tmp_path, acc=1.0))
    figure = plots.by_epoch([report.Group({"model.target": r"$\frac$\x1b"}, [run])])
    assert plots.rendered(figure)  # a ParseException of matplotlib's before
    assert r"model.target=\$\frac\$\x1b (n=1)" in {
        label for axis in figure.axes for label in axis.get_legend_handles_labels()[1]
    }


def test_a_title_is_no_mathematics():
    assert plots.rendered(plots.curves([0, 1], {"a": [0.0, 1.0]}, "x", "y", in_picture(r"$\frac$")))
