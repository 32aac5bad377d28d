"""The runs that a target needs, records of runs, and reproduce.py itself."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.composing import ROOT
from tests.nn.refused import assert_refused
from tests.paper.by_hand import complete
from tests.processes import HANG, wait_for
from varnet.cli import reproduce
from varnet.errors import CheckpointError, ConfigError, DataError
from varnet.launch import queue
from varnet.launch.queue import Job
from varnet.paper.library import Library, described
from varnet.paper.reproduction import TARGETS, jobs_of
from varnet.report.tables import SCALES, name_at
from varnet.runs import records


@pytest.mark.usefixtures("here")
def test_the_records_of_a_tables_runs():
    complete(Job("noise_bernoulli", 0))
    ((name, record),) = Library(1, "full").records(["noise_bernoulli"]).items()
    assert name == "noise_bernoulli-seed0.json" and record["metrics"]["acc_k"] == 99.0
    assert record["config"]["param"]["noise"] == "bernoulli" and "out_dir" not in record["config"]
    assert record["history"] == [{"epoch": 1, "kl": 1.23457, "log_alpha": {"dense1": {"mean": 0.5}}}]
    assert json.loads(records.as_json(record)) == record


def test_records_stand_for_runs_whose_folder_is_gone(here, tmp_path):
    """Seeds of another day add up; precisions are kept apart; a record of another configuration does not count."""
    out = tmp_path / "out"
    command = ["noise", "run=false", f"out={out}"]
    for seed, value in enumerate((99.1, 99.3)):
        complete(Job("noise_bernoulli", seed), acc_k=value)
    complete(Job("noise_bernoulli", 0, ("precision=bf16",)), acc_k=98.0)
    assert reproduce.main(command) == 0 and reproduce.main([*command, "precision=bf16"]) == 0
    assert len(list((out / "runs").iterdir())) == 3
    shutil.rmtree(here)
    complete(Job("noise_bernoulli", 2), acc_k=99.5)
    assert reproduce.main(command) == 0
    rows = json.loads((out / "noise.json").read_text())
    found = [(row["precision"], row["n"], row["seeds"], round(row["mean"], 3)) for row in rows]
    assert found == [("fp32", 3, [0, 1, 2], 99.3), ("bf16", 1, [0], 98.0)]
    assert (
        rows[1]["command"].endswith("precision=bf16 seed=0")
        and "| full, 200 epochs, bf16 |" in (out / "noise.md").read_text()
    )
    record = out / "runs" / "noise_bernoulli-seed1.json"
    text = record.read_text()
    record.write_text(text.replace('"batch_size": 200', '"batch_size": 100'))
    assert reproduce.main(command) == 0
    assert json.loads((out / "noise.json").read_text())[0]["seeds"] == [0, 2]


def test_experiments_that_are_one_run_have_one_record(here, tmp_path):
    """noise_gaussian is table1_zero_mean."""
    complete(Job("table1_zero_mean", 0), acc_k=99.1)
    out = tmp_path / "out"
    assert reproduce.main(["table1", "run=false", f"out={out}"]) == 0
    assert [path.name for path in (out / "runs").iterdir()] == ["table1_zero_mean-seed0.json"]
    shutil.rmtree(here)
    assert reproduce.main(["noise", "run=false", f"out={out}"]) == 0
    (row,) = json.loads((out / "noise.json").read_text())
    assert (row["row"], row["mean"], row["n"]) == ("gaussian", 99.1, 1)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"config": {}, "metrics": {"seed": 0}}'])
def test_a_damaged_record_is_said_before_anything_runs(tmp_path, capsys, monkeypatch, text):
    monkeypatch.setattr(queue, "run_all", lambda *_: pytest.fail("a run was started"))
    (tmp_path / "out" / "runs").mkdir(parents=True)
    (tmp_path / "out" / "runs" / "table3_det-seed0.json").write_text(text)
    assert reproduce.main(["table3", f"out={tmp_path / 'out'}"]) == 2
    message = capsys.readouterr().err
    assert "table3_det-seed0.json is not a record of a run: restore it, or delete it" in message
    assert message.count("\n") == 1


@pytest.mark.usefixtures("undrawn")
def test_the_phase_transition_from_records(here, tmp_path):
    accuracies = {"acc_1": 98.0, "acc_k": 99.0}
    lines = [
        {"epoch": e, "acc_det": 99.0 - e, "acc_zero_mean_k": 10.0 * e, "log_alpha": {"dense1": {"mean": e}}}
        | accuracies
        for e in (1, 2)
    ]
    complete(Job("small/phase_loguniform", 0), lines)
    command = ["phase", "fig3", "scale=small", "run=false", f"out={tmp_path / 'out'}"]
    assert reproduce.main(command) == 0
    shutil.rmtree(here)
    (tmp_path / "out" / "fig3.png").unlink()
    assert reproduce.main(command) == 0 and (tmp_path / "out" / "fig3.png").exists()
    (tmp_path / "out" / "fig3.png").unlink()
    assert reproduce.main([*command, "precision=bf16"]) == 1, "precisions are not mixed in a figure"
    record = next((tmp_path / "out" / "runs").iterdir())
    record.write_text(json.dumps({k: v for k, v in json.loads(record.read_text()).items() if k != "history"}))
    assert reproduce.main(command) == 1 and not (tmp_path / "out" / "fig3.png").exists()


def test_rows_that_share_a_run_share_it():
    library = Library(2, "full")
    assert Job("phase_loguniform", 1).folder() == Job("table2_cifar10_variance", 1).folder()
    assert (
        len(jobs_of(["table1", "noise", "fig5", "fig9"], library)) == 6 * 2 + 2 * 2
    )  # the additive column has two starts
    assert jobs_of(["fig2"], library) == []
    assert len(jobs_of(["fig1"], library)) == 8 and len(jobs_of(["fig1"], Library(2, "small"))) == 2


@pytest.mark.parametrize("scale", ["full", "small"])
def test_every_target_has_its_experiments_and_a_name(scale):
    library = Library(1, scale)
    for name in TARGETS:
        jobs_of([name], library)  # composes all
        assert TARGETS[name].title and (TARGETS[name].published or TARGETS[name].draw)
    small = [job.config() for job in jobs_of(list(TARGETS), Library(1, "small"))]
    assert all(cfg.scale == "small" and cfg.name.startswith("small/") for cfg in small)
    assert all(job.config().scale is None for job in jobs_of(list(TARGETS), Library(1, "full")))


@pytest.mark.parametrize(("scale", "width", "runs"), [("fast", 1.0, 3), ("half", 0.5, 7)])
def test_our_schedule_leaves_the_objective_as_it_was(scale, width, runs):
    """Full width has beta = 1; a KL that falls with the square of the width is brought back to its weight."""
    configs = [job.config() for job in jobs_of(["table2"], Library(1, scale))]
    assert len(configs) == runs and all(cfg.scale == scale and cfg.model.width == width for cfg in configs)
    assert all(cfg.schedule.beta == (1 if cfg.param.name == "dropout" else 1 / width**2) for cfg in configs)


def test_a_scale_without_experiments_is_refused(tmp_path, capsys):
    assert reproduce.main(["table1", "scale=fast", f"out={tmp_path / 'out'}"]) == 2
    assert "scale=fast has no experiment for table1: use scale=full" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_published_numbers_are_those_of_the_experiments_headers():
    """A control, which was not published, has no experiment of full scale."""
    for row in [row for target in TARGETS.values() for row in target.published if row.experiment]:
        name = next(name for scale in SCALES if described(name := name_at(row.experiment, scale)))
        text = (ROOT / "configs" / "experiment" / f"{name}.yaml").read_text()
        assert f"experiment={name}" in text
        if row.value is not None and "The same run as" not in text and row.metric != "log_alpha":
            assert f"{row.value:g}" in text or f"{row.value:.1f}" in text, row


@pytest.mark.parametrize(
    ("arguments", "key", "words"),
    [
        (["table9"], None, "table9 is not known: choose from table1, "),
        ([], None, "name a table"),
        (["fig2", "seed=3"], "seed", "use one of seeds, scale"),
        (["fig2", "seeds=0"], "seeds", "a whole number from 1"),
        (["fig2", "scale=tiny"], "scale", "full or fast or half or small"),
        (["fig2", "run=no"], "run", "true or false"),
        (["fig2", "jobs=x"], "jobs", "a whole number from 1"),
        (["linear", "threads=0"], "threads", "a whole number from 1"),
        (["fig2", "seeds=²"], "seeds", "a whole number from 1"),
        (["fig6", "out_dir="], "out_dir", "give it a value, or leave it out"),
    ],
)
def test_wrong_arguments(arguments, key, words):
    assert_refused(lambda: reproduce.parse(arguments, list(TARGETS)), key, words)


def test_arguments():
    names, options, passed = reproduce.parse(["all", "jobs=2", "data_dir=d"], list(TARGETS))
    assert names == list(TARGETS) and options["scale"] == "full" and passed == ("data_dir=d", "threads=1")
    assert reproduce.parse(["toy", "fig1"], list(TARGETS))[0] == ["fig1"]


@pytest.mark.parametrize("kind", [ConfigError, CheckpointError, DataError])
def test_one_figure_that_cannot_be_drawn_does_not_stop_the_others(kind, tmp_path, monkeypatch, capsys):
    def refuse(_library):
        raise kind("no image is right")

    monkeypatch.setitem(TARGETS, "fig6", TARGETS["fig6"]._replace(draw=refuse))
    assert reproduce.main(["fig6", "fig2", f"out={tmp_path}"]) == 1
    assert capsys.readouterr().err == "fig6: no image is right\n" and (tmp_path / "fig2.png").exists()


@pytest.mark.usefixtures("here", "undrawn")
def test_the_page_has_what_was_made_before(tmp_path):
    complete(Job("noise_bernoulli", 0))
    page = tmp_path / "report.html"
    assert reproduce.main(["fig2", f"out={tmp_path}"]) == 0
    assert reproduce.main(["fig6", "run=false", f"out={tmp_path}"]) == 1, "nothing is made of nothing"
    assert "Figure 2" in page.read_text() and "Section 3.3" not in page.read_text()
    assert reproduce.main(["noise", "run=false", f"out={tmp_path}"]) == 0
    assert "Figure 2" in page.read_text() and "Section 3.3" in page.read_text()


@pytest.mark.parametrize(("argument", "code"), [("out_dir=a=b", 2), ("out_dir=a(b", 2), ("out=/dev/null", 4)])
def test_places_that_cannot_be_used_are_one_sentence(argument, code, capsys):
    assert reproduce.main(["noise", "run=false", argument]) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1


def test_fig2(tmp_path, capsys):
    assert reproduce.main(["fig2", f"out={tmp_path}"]) == 0
    assert (tmp_path / "fig2.png").read_bytes().startswith(b"\x89PNG") and "<svg" in (tmp_path / "fig2.svg").read_text()
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64," in page and "Figure 2" in page and "http" not in page.replace("http-equiv", "")
    numbers = json.loads((tmp_path / "fig2.numbers.json").read_text())
    assert numbers["Student's t, nu = 1e-16"]["0"] == pytest.approx(numbers["log-uniform"]["0"], abs=1e-3)
    assert numbers["log-uniform"]["4"] < numbers["log-uniform"]["0"] < numbers["log-uniform"]["-4"]


@pytest.mark.slow
def test_toy_from_nothing_and_again(tmp_path, capsys):
    arguments = ["toy", "scale=small", f"out={tmp_path / 'out'}", f"out_dir={tmp_path / 'runs'}", "threads=1"]
    assert reproduce.main(arguments) == 0
    numbers = json.loads((tmp_path / "out" / "fig1.numbers.json").read_text())
    assert numbers["seed 0"]["kind"] in ("repeat", "orthogonal") and numbers["seed 0"]["acc_k"] > 50
    assert reproduce.main(arguments) == 0
    assert "1 of 1 runs are finished already" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_what_is_missing_is_said(tmp_path, capsys):
    assert reproduce.main(["table3", "run=false", f"out={tmp_path / 'out'}"]) == 1
    assert "no finished run yet for: table3" in capsys.readouterr().err


@pytest.mark.slow
def test_interrupted_and_started_again(tmp_path):
    command = [
        sys.executable, str(ROOT / "scripts" / "reproduce.py"), "toy", "scale=small", f"out={tmp_path / 'out'}",
        f"out_dir={tmp_path / 'runs'}", "threads=1", "checkpoint_every=50", "seeds=2", "jobs=2",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs = tmp_path / "runs" / "small" / "toy"
    wait_for(lambda: len(list(runs.glob("seed*/checkpoint.pt"))) == 2, process)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 130 and "goes on from the checkpoints" in errors
    assert not list(runs.glob("seed*/metrics.json"))
    assert subprocess.run(command, capture_output=True).returncode == 0
    logs = "".join(log.read_text() for log in runs.glob("*.log"))
    assert logs.count("going on after epoch") == 2
