"""Reports of many runs: without torch, of histories only what is drawn, a picture that stays one."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from omegaconf import OmegaConf

from tests.composing import ROOT
from tests.report.test_groups import write_run
from varnet.base import plots
from varnet.report import groups as report
from varnet.runs.stored import Loader

CODE = """
import sys
from varnet.cli import report
code = report.main(sys.argv[1:])
print([name for name in ("torch", "hydra", "tensorboard", "sklearn") if name in sys.modules])
sys.exit(code)
"""


def test_a_report_loads_no_torch(tmp_path):
    write_run(tmp_path / "runs", acc=90.0)
    command = [sys.executable, "-c", CODE, "runs"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0 and "90.00 +- -" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_of_a_history_only_what_is_drawn_is_kept(tmp_path):
    folder = write_run(tmp_path, acc=90.0)
    row = {"epoch": 1, "acc_k": 50.0, "acc_det": "x", "elbo": None, "kl_by_layer": {"a": 1.0}, "seconds": 3.0}
    (folder / "history.jsonl").write_text(json.dumps(row) + "\n")
    run = report.read_run(folder)
    assert run.curves == {"epoch": [1], "acc_k": [50.0], "acc_det": [None], "elbo": [None]}
    assert run.values("acc_k") == {1: 50.0} and run.values("elbo") == {}


@pytest.mark.parametrize("number", [plots.IN_LEGEND, plots.IN_LEGEND + 1])
def test_a_legend_leaves_room_for_the_curves(tmp_path, number):
    run = report.read_run(write_run(tmp_path, acc=90.0))
    figure = plots.by_epoch([report.Group({"schedule.lr": i}, [run, run]) for i in range(number)])
    (legend,) = figure.legends
    assert len(legend.texts) == plots.IN_LEGEND
    assert plots.rendered(figure)  # a warning that the axes have collapsed is an error here
    assert figure.axes[0].get_position().height > 0.1
    many = number > plots.IN_LEGEND
    assert (figure.get_supxlabel() == "1 more curves have no name here: table.csv lists all groups") == many
    assert all(len(axis.lines) in (0, number) for axis in figure.axes)
    assert sum(len(axis.collections) for axis in figure.axes) == (0 if many else 2 * number)


SCALARS = (
    "1e-3", "1.0e-05", "1e3", ".5", "1_000", "0x1f", "0b11", "012", "1:30", "2020-01-01", "yes", "True", "null", "~",
    "", "'1e-3'", '"\\e[2J"', "[1, 2.5, a]", "{a: 1, b: [c]}", ".inf", "-.inf", "0.1", "12e", "- 1\n- 2", "é",
)  # fmt: skip


@pytest.mark.parametrize("text", SCALARS)
def test_a_stored_configuration_is_read_as_omegaconf_reads_it(text):
    whole = f"a: {text}\nb: {{c: {text if chr(10) not in text else 1}}}" if "- 1" not in text else f"a:\n{text}\n"
    theirs = OmegaConf.to_container(OmegaConf.create(whole))
    assert repr(yaml.load(whole, Loader=Loader)) == repr(theirs)


def test_a_key_that_is_there_twice_is_refused():
    with pytest.raises(yaml.YAMLError, match="a key is there twice"):
        yaml.load("a: 1\na: 2", Loader=Loader)
