"""Tables from fixture runs, the jobs that a target needs, and reproduce.py itself."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tests.composing import ROOT
from varnet.cli import reproduce
from varnet.data.sets.toy import toy
from varnet.errors import CheckpointError, ConfigError, DataError
from varnet.launch import pool
from varnet.paper import figures
from varnet.paper.published import TABLES
from varnet.paper.reproduction import CAPTIONS, TARGETS, Job, Library, jobs_of
from varnet.report import tables
from varnet.runs import records
from varnet.runs.folder import folder_of


def finished(job: Job, **metrics) -> None:
    """A finished run's folder, without the run."""
    job.folder().mkdir(parents=True)
    values = {"acc_1": 98.0, "acc_det": 11.0, "acc_k": 99.0, "elbo": -5.0, "data_term": -4.0, "kl": 1.0, "epochs": 200}
    content = values | {"seed": job.seed, "commit": "0123456789abcdef", "samples": 20} | metrics
    (job.folder() / "metrics.json").write_text(json.dumps(content))


def complete(job: Job, lines: list[dict] | None = None, **metrics) -> None:
    """The same with its configuration and history."""
    finished(job, **metrics)
    (job.folder() / ".hydra").mkdir()
    OmegaConf.save(job.config(), job.folder() / ".hydra" / "config.yaml", resolve=True)
    lines = lines or [{"epoch": 1, "kl": 1.23456789, "acc_k": None, "log_alpha": {"dense1": {"mean": 0.5, "min": 0}}}]
    (job.folder() / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def here(tmp_path) -> tuple[str, ...]:
    return (f"out_dir={tmp_path / 'runs'}",)


def test_the_table_of_fixture_runs(here):
    for seed, value in enumerate((99.1, 99.3, 99.5)):
        finished(Job("noise_bernoulli", seed, here), acc_k=value)
    finished(Job("small/noise_uniform", 0, here), acc_k=98.0, epochs=20)
    rows = tables.rows_of("noise", Library(1, "full", here).metrics)
    assert tables.markdown(rows) == (
        "| row | metric | published | ours | n | difference | scale |\n"
        "|---|---|---|---|---|---|---|\n"
        "| bernoulli | 20 samples, % | 98.70 | 99.30 ± 0.20 | 3 | 0.60 | full, 200 epochs |\n"
        "| uniform | 20 samples, % | 98.70 | 98.00 | 1 | -0.70 | small, 20 epochs |\n"
    )
    assert rows[0]["command"] == "python train.py experiment=noise_bernoulli seed=0,1,2 -m"
    assert rows[0]["seeds"] == [0, 1, 2] and rows[0]["commit"] == "0123456789"
    wanted = {"row", "metric", "published", "mean", "std", "n", "scale", "command", "commit"}
    assert all(wanted <= set(row) for row in rows) and rows[1]["std"] is None
    assert json.loads(tables.as_json(rows)) == rows
    html = tables.as_html(rows)
    assert html.count("<tr>") == 3 and "99.30 ± 0.20" in html


@pytest.mark.parametrize(
    ("shares", "compression", "wanted"), [((100.0, 100.0), 5000.0, 100.0), ((99.0, 100.0), 200.0, 99.5)]
)
def test_the_sparsity_of_a_whole_network(here, shares, compression, wanted):
    sparsity = dict(zip(("dense1", "dense2"), shares, strict=True))
    job = Job("random_labels_mnist_sparse_vd", 0, here)
    finished(job, acc_det=10.0, train_acc_det=10.0, sparsity=sparsity, compression=compression)
    rows = tables.rows_of("random_labels", Library(1, "full", here).metrics)
    assert [row["mean"] for row in rows] == [10.0, 10.0, wanted]


def test_the_records_of_a_tables_runs(here):
    complete(Job("noise_bernoulli", 0, here))
    ((name, record),) = Library(1, "full", here).records("noise").items()
    assert name == "noise_bernoulli-seed0.json" and record["metrics"]["acc_k"] == 99.0
    assert record["config"]["param"]["noise"] == "bernoulli" and "out_dir" not in record["config"]
    assert record["history"] == [{"epoch": 1, "kl": 1.23457, "log_alpha": {"dense1": {"mean": 0.5}}}]
    assert json.loads(records.as_json(record)) == record


def test_records_stand_for_runs_whose_folder_is_gone(here, tmp_path):
    """Seeds of another day add up; precisions are kept apart; a record of another configuration does not count."""
    out = tmp_path / "out"
    command = ["noise", "run=false", f"out={out}", *here]
    for seed, value in enumerate((99.1, 99.3)):
        complete(Job("noise_bernoulli", seed, here), acc_k=value)
    complete(Job("noise_bernoulli", 0, (*here, "precision=bf16")), acc_k=98.0)
    assert reproduce.main(command) == 0 and reproduce.main([*command, "precision=bf16"]) == 0
    assert len(list((out / "runs").iterdir())) == 3
    shutil.rmtree(tmp_path / "runs")
    complete(Job("noise_bernoulli", 2, here), acc_k=99.5)
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
    complete(Job("table1_zero_mean", 0, here), acc_k=99.1)
    out = tmp_path / "out"
    assert reproduce.main(["table1", "run=false", f"out={out}", *here]) == 0
    assert [path.name for path in (out / "runs").iterdir()] == ["table1_zero_mean-seed0.json"]
    shutil.rmtree(tmp_path / "runs")
    assert reproduce.main(["noise", "run=false", f"out={out}", *here]) == 0
    (row,) = json.loads((out / "noise.json").read_text())
    assert (row["row"], row["mean"], row["n"]) == ("gaussian", 99.1, 1)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"config": {}, "metrics": {"seed": 0}}'])
def test_a_damaged_record_is_said_before_anything_runs(tmp_path, here, capsys, monkeypatch, text):
    monkeypatch.setattr(pool, "run_all", lambda *_: pytest.fail("a run was started"))
    (tmp_path / "out" / "runs").mkdir(parents=True)
    (tmp_path / "out" / "runs" / "table3_det-seed0.json").write_text(text)
    assert reproduce.main(["table3", f"out={tmp_path / 'out'}", *here]) == 2
    message = capsys.readouterr().err
    assert "table3_det-seed0.json is not a record of a run: restore it, or delete it" in message
    assert message.count("\n") == 1


def test_the_phase_transition_from_records(here, tmp_path):
    accuracies = {"acc_1": 98.0, "acc_k": 99.0}
    lines = [
        {"epoch": e, "acc_det": 99.0 - e, "acc_zero_mean_k": 10.0 * e, "log_alpha": {"dense1": {"mean": e}}}
        | accuracies
        for e in (1, 2)
    ]
    complete(Job("small/phase_loguniform", 0, here), lines)
    command = ["phase", "fig3", "scale=small", "run=false", f"out={tmp_path / 'out'}", *here]
    assert reproduce.main(command) == 0
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "out" / "fig3.png").unlink()
    assert reproduce.main(command) == 0 and (tmp_path / "out" / "fig3.png").exists()
    (tmp_path / "out" / "fig3.png").unlink()
    assert reproduce.main([*command, "precision=bf16"]) == 1, "precisions are not mixed in a figure"
    record = next((tmp_path / "out" / "runs").iterdir())
    record.write_text(json.dumps({k: v for k, v in json.loads(record.read_text()).items() if k != "history"}))
    assert reproduce.main(command) == 1 and not (tmp_path / "out" / "fig3.png").exists()


def test_a_run_with_another_configuration_is_not_taken_for_a_row(here):
    finished(Job("noise_bernoulli", 0, here))
    other = Job("noise_bernoulli", 1, here)
    finished(other)
    other.folder().rename(other.folder().with_name("seed1-deadbeef"))
    assert [row["n"] for row in tables.rows_of("noise", Library(3, "full", here).metrics)] == [1]


def test_the_poster_and_small_numbers_are_shown():
    row = {"row": "layer", "metric": "kl", "published": 1.7, "poster": 0.36, "mean": 0.01234, "std": None, "n": 1}
    shown = tables.cells(row | {"difference": -1.68766, "scale": "full", "epochs": 200})
    assert shown == ["layer", "KL", "1.70 (poster 0.36)", "0.01234", "1", "-1.69", "full, 200 epochs"]


def test_rows_that_share_a_run_share_it():
    library = Library(2, "full")
    assert Job("phase_loguniform", 1).folder() == Job("table2_cifar10_variance", 1).folder()
    assert len(jobs_of(["table1", "noise", "fig5", "fig9"], library)) == 5 * 2 + 2 * 2
    assert jobs_of(["fig2"], library) == []
    assert len(jobs_of(["fig1"], library)) == 8 and len(jobs_of(["fig1"], Library(2, "small"))) == 2


@pytest.mark.parametrize("scale", ["full", "small"])
def test_every_target_has_its_experiments_and_a_name(scale):
    library = Library(1, scale)
    for name in TARGETS:
        jobs_of([name], library)  # composes all
        assert name in TABLES or name in CAPTIONS
    small = [job.config() for job in jobs_of(list(TARGETS), Library(1, "small"))]
    assert all(cfg.scale == "small" and cfg.name.startswith("small/") for cfg in small)
    assert all(job.config().scale is None for job in jobs_of(list(TARGETS), Library(1, "full")))


def test_published_numbers_are_those_of_the_experiments_headers():
    for rows in TABLES.values():
        for row in rows:
            text = (ROOT / "configs" / "experiment" / f"{row.experiment}.yaml").read_text()
            assert f"experiment={row.experiment}" in text
            if row.published is not None and "The same run as" not in text and row.metric != "log_alpha":
                assert f"{row.published:g}" in text or f"{row.published:.1f}" in text, row


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["table9"], "table9 is not known"),
        ([], "name a table"),
        (["fig2", "seed=3"], "there is no key seed"),
        (["fig2", "seeds=0"], "seeds=0"),
        (["fig2", "scale=tiny"], "scale=tiny"),
        (["fig2", "jobs=x"], "jobs=x"),
        (["linear", "threads=0"], "threads=0"),
        (["fig2", "seeds=²"], "seeds=²"),
        (["fig6", "out_dir="], "out_dir= is empty"),
    ],
)
def test_wrong_arguments(arguments, words):
    with pytest.raises(reproduce.UsageError) as caught:
        reproduce.parse(arguments, list(TARGETS))
    assert words in str(caught.value)


def test_arguments():
    names, options, passed = reproduce.parse(["all", "jobs=2", "data_dir=d"], list(TARGETS))
    assert names == list(TARGETS) and options["scale"] == "full" and passed == ("data_dir=d", "threads=1")
    assert reproduce.parse(["toy", "fig1"], list(TARGETS))[0] == ["fig1"]


def test_targets_that_are_no_runs_of_train(tmp_path, monkeypatch):
    from varnet.linear import experiment

    monkeypatch.setattr(experiment, "EXPERIMENTS", [("regression", "tiny")])
    monkeypatch.setattr(experiment, "SIZES", {"tiny": (100, 20), "1,000 x 1,000": (100, 20)})
    assert reproduce.main(["linear", f"out={tmp_path}"]) == 0
    rows = json.loads((tmp_path / "linear.json").read_text())
    assert rows[0]["n"] == 5 and "| linear" not in (tmp_path / "linear.md").read_text()
    runs = tmp_path / "none"
    assert reproduce.main(["fig6", "linear", "run=false", f"out={tmp_path / 'out'}", f"out_dir={runs}"]) == 1


def test_fig6_takes_its_own_runs_and_tells_of_a_sweep_that_failed(tmp_path, monkeypatch, capsys):
    pytest.importorskip("gymnasium", reason="pip install 'varnet[rl]'")
    from varnet.paper import beyond
    from varnet.rl.grid import composed, grid
    from varnet.rl.run import run

    short = ["env=cartpole", "env.max_steps=20", "policy.hidden=16", "schedule.episodes=3"]
    monkeypatch.setattr(beyond, "SWEEP", short)
    monkeypatch.setattr(beyond, "SEEDS", 1)
    folder = f"out_dir={tmp_path / 'rl'}"
    run(composed([*short, folder, "schedule.lr=1"]))  # another trial, not of the figure
    common = [f"out={tmp_path / 'out'}", f"out_dir={tmp_path}"]
    assert reproduce.main(["fig6", "run=false", *common]) == 1
    assert "no finished run yet for: fig6" in capsys.readouterr().err
    assert reproduce.main(["fig6", "seeds=2", "jobs=2", *common]) == 0
    (row,) = json.loads((tmp_path / "out" / "fig6.json").read_text())
    assert row["n"] == 2 and row["scale"] == "3 episodes" and "schedule.lr=0.001" in row["command"]
    third = folder_of(grid([*short, folder, "seed=2"])[0])
    third.write_text("a file where the folder should be")
    assert reproduce.main(["fig6", "fig2", "seeds=3", *common]) == 1
    assert "fig6: scripts/rl.py ended with exit code 1" in capsys.readouterr().err
    assert (tmp_path / "out" / "fig2.png").exists()


@pytest.mark.parametrize("kind", [ConfigError, CheckpointError, DataError])
def test_one_figure_that_cannot_be_drawn_does_not_stop_the_others(kind, tmp_path, monkeypatch, capsys):
    def refuse(_library):
        raise kind("no image is right")

    monkeypatch.setitem(TARGETS, "fig6", TARGETS["fig6"]._replace(draw=refuse))
    assert reproduce.main(["fig6", "fig2", f"out={tmp_path}"]) == 1
    assert capsys.readouterr().err == "fig6: no image is right\n" and (tmp_path / "fig2.png").exists()


def test_the_page_has_what_was_made_before(here, tmp_path):
    complete(Job("noise_bernoulli", 0, here))
    page = tmp_path / "report.html"
    assert reproduce.main(["fig2", f"out={tmp_path}"]) == 0
    assert reproduce.main(["fig6", "run=false", f"out={tmp_path}", *here]) == 1, "nothing is made of nothing"
    assert "Figure 2" in page.read_text() and "Section 3.3" not in page.read_text()
    assert reproduce.main(["noise", "run=false", f"out={tmp_path}", *here]) == 0
    assert "Figure 2" in page.read_text() and "Section 3.3" in page.read_text()


@pytest.mark.parametrize(("argument", "code"), [("out_dir=a=b", 2), ("out_dir=a(b", 2), ("out=/dev/null", 4)])
def test_places_that_cannot_be_used_are_one_sentence(argument, code, capsys):
    assert reproduce.main(["noise", "run=false", argument]) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1


def test_a_folder_with_a_comma_is_one_folder():
    from varnet.paper.beyond import quoted
    from varnet.rl.grid import expanded

    for name in ("a,b", "it's", "a=b (c)"):
        (overrides,) = expanded([f"out_dir={quoted(name)}"])
        with initialize_config_dir(str(ROOT / "configs" / "rl"), version_base="1.3"):
            assert compose("rl", overrides).out_dir == name


def test_fig2(tmp_path, capsys):
    assert reproduce.main(["fig2", f"out={tmp_path}"]) == 0
    assert (tmp_path / "fig2.png").read_bytes().startswith(b"\x89PNG") and "<svg" in (tmp_path / "fig2.svg").read_text()
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64," in page and "Figure 2" in page and "http" not in page.replace("http-equiv", "")
    numbers = json.loads((tmp_path / "fig2.numbers.json").read_text())
    assert numbers["Student's t, nu = 1e-16"]["0"] == pytest.approx(numbers["log-uniform"]["0"], abs=1e-3)
    assert numbers["log-uniform"]["4"] < numbers["log-uniform"]["0"] < numbers["log-uniform"]["-4"]


def test_the_noise_of_figure_1_is_not_that_of_its_points():
    """Both are normal numbers of one shape: with one seed they were the same, and the clouds were skewed."""
    noise = torch.randn(2000, 2, generator=torch.Generator().manual_seed(figures.NOISE_SEED))
    points = toy(0)["train_x"].reshape(4, 500, 2)
    points = (points - points.mean(1, keepdim=True)).reshape(2000, 2)
    assert abs(float((noise * points).mean())) < 0.1


@pytest.mark.slow
def test_toy_from_nothing_and_again(tmp_path, capsys):
    arguments = ["toy", "scale=small", f"out={tmp_path / 'out'}", f"out_dir={tmp_path / 'runs'}", "threads=1"]
    assert reproduce.main(arguments) == 0
    numbers = json.loads((tmp_path / "out" / "fig1.numbers.json").read_text())
    assert numbers["seed 0"]["kind"] in ("repeat", "orthogonal") and numbers["seed 0"]["acc_k"] > 50
    assert reproduce.main(arguments) == 0
    assert "1 of 1 runs are finished already" in capsys.readouterr().out


def test_what_is_missing_is_said(here, tmp_path, capsys):
    assert reproduce.main(["table3", "run=false", f"out={tmp_path / 'out'}", *here]) == 1
    assert "no finished run yet for: table3" in capsys.readouterr().err


@pytest.mark.slow
def test_interrupted_and_started_again(tmp_path):
    command = [
        sys.executable, str(ROOT / "scripts" / "reproduce.py"), "toy", "scale=small", f"out={tmp_path / 'out'}",
        f"out_dir={tmp_path / 'runs'}", "threads=1", "checkpoint_every=50", "seeds=2", "jobs=2",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs = tmp_path / "runs" / "small" / "toy"
    deadline = time.monotonic() + 120
    while len(list(runs.glob("seed*/checkpoint.pt"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130 and "goes on from the checkpoints" in errors
    assert not list(runs.glob("seed*/metrics.json"))
    assert subprocess.run(command, capture_output=True).returncode == 0
    logs = "".join(log.read_text() for log in runs.glob("*.log"))
    assert logs.count("going on after epoch") == 2


def test_a_run_that_fails_is_reported_and_the_others_go_on(tmp_path, here):
    good = Job("small/toy", 0, (*here, "threads=1", "schedule.epochs=2", "dataset.train_size=40"))
    bad = Job("small/toy", 0, (*here, "schedule.epochs=2", "data_dir=null", "schedule.lr=-1"))
    failed = pool.run_all([bad, good], at_once=1, root=ROOT)
    assert len(failed) == 1 and "schedule.lr=-1" in failed[0] and good.folder().joinpath("metrics.json").exists()


def test_time_left():
    assert pool.time_left(1.0, 0.0, 3.0, 1800) == "1 h 00 min left"
    assert pool.time_left(2.5, 2.0, 3.0, 60) == "2 min left"
    assert pool.time_left(2.0, 2.0, 3.0, 60) == "time left not known yet"


def test_kinds_of_representation():
    assert figures.representation([[1.0, 10.0, 100.0], [3.0, 20.0, 500.0]]) == "repeat"
    assert figures.representation([[1.0, 10.0, 11.0], [3.0, 21.0, 20.0]]) == "repeat", "a tie is no other order"
    assert figures.representation([[0.1, 300.0, 0.5, 1e4], [0.1, 3.0, 2e3, 2e3]]) == "orthogonal"


def test_where_the_transition_is():
    accuracies = [(99, 10), (99, 60), (40, 98), (10, 99)]
    history = [
        {"epoch": i + 1, "acc_det": det, "acc_zero_mean_k": zero, "acc_k": 99}
        for i, (det, zero) in enumerate(accuracies)
    ]
    assert list(figures.transition(history).values()) == [2, 3]


def test_figures_from_a_real_run(tmp_path):
    from composing import tiny

    from train import run
    from varnet.runs.folder import folder_of
    from varnet.runs.opening import open_finished

    cfg = tiny(tmp_path, "param=zero_mean", "schedule.epochs=2")
    run(cfg)
    opened = open_finished(Path(folder_of(cfg)))
    for figure, numbers in (
        figures.weight_samples(opened, averages=2, samples=3),
        figures.pruning(opened, samples=2),
        figures.class_densities(opened),
    ):
        assert figure.axes and numbers
    history = [json.loads(line) for line in (folder_of(cfg) / "history.jsonl").read_text().splitlines()]
    metrics = json.loads((folder_of(cfg) / "metrics.json").read_text())
    figure, _ = figures.phase_transition({"loguniform": [(history, metrics)] * 2})
    assert len(figure.axes) == 2


def test_curves_average_only_runs_evaluated_at_the_same_epochs():
    def lines(evaluated: dict[int, float], shift: float) -> list[dict]:
        return [
            {"epoch": e, "acc_k": evaluated.get(e), "log_alpha": {"dense1": {"mean": e + shift}}} for e in range(1, 5)
        ]

    often, seldom = lines({1: 10.0, 2: 20.0, 4: 40.0}, 0.0), lines({2: 90.0, 3: 90.0, 4: 90.0}, 2.0)
    figure, _ = figures.phase_transition({"x": [(often, {"samples": 20}), (seldom, {"samples": 20})]})
    top, bottom = figure.axes
    assert [line.get_label() for line in top.lines] == ["20 samples (n = 1)"]
    assert list(top.lines[0].get_xdata()) == [1, 2, 4] and list(top.lines[0].get_ydata()) == [10, 20, 40]
    assert bottom.lines[0].get_label() == "dense1" and list(bottom.lines[0].get_ydata()) == [2, 3, 4, 5]
