"""What there is and what is missing: the list, and the queue that it makes."""

import shutil
from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from tests.paper.by_hand import complete as complete_run
from varnet.cli import reproduce
from varnet.launch import queue
from varnet.launch.pool import Outcome
from varnet.launch.queue import Job
from varnet.paper.library import Library
from varnet.paper.reproduction import TARGETS
from varnet.paper.status import Costs, by_cost, complete, lines, summary, without_recorded
from varnet.report import Row, as_json
from varnet.runs import records


@pytest.fixture
def library(here, tmp_path):
    """One run of Bernoulli noise at full scale and one at the small one, of which only records are left."""
    complete_run(Job("noise_bernoulli", 0), seconds=7200.0)
    complete_run(Job("small/noise_bernoulli", 4), seconds=100.0, epochs=20)
    out = tmp_path / "out"
    assert reproduce.main(["noise", "run=false", f"out={out}"]) == 0
    shutil.rmtree(here)
    return Library(3, "full", (), False, out / "runs")


def test_every_row_has_a_line(library):
    found = {line.row: line for line in lines([TARGETS["noise"]], library)}
    assert list(found) == ["gaussian", "bernoulli", "uniform"]
    assert found["bernoulli"].runs == {"full": {"fp32": 1}, "small": {"fp32": 1}}
    assert found["bernoulli"].published == "20 samples, % 98.70"
    assert list(found["bernoulli"].missing.values()) == [7200.0] * 2
    assert list(found["uniform"].missing.values()) == [None] * 3 and found["uniform"].runs["full"] == {}
    assert summary(list(found.values())) == "missing: 4.0 hours, one run after the other, and 6 runs of unknown cost"


def test_all_targets_have_lines_and_a_shared_run_counts_once(library):
    library.seeds = 1
    every = lines(TARGETS.values(), library)
    assert {line.target for line in every} == set(TARGETS), "figures whose runs are others, and those of none, too"
    assert [len(line.missing) for line in every if line.row == "toy"] == [8]  # Figure 1 takes eight at least
    same = ("table1_zero_mean", "noise_gaussian")  # two names of one run
    twice = [line for line in every if line.experiment in same and line.target in ("table1", "noise")]
    assert len(twice) == 2 and "1 runs" in summary(twice)
    ours = {line.row: len(line.missing) for line in every if line.target == "fig6"}
    assert ours["acrobot, variance"] == 9 and not library.jobs("fig6")


def test_runs_that_are_none_of_train_py_are_counted_in_what_was_made(library):
    row = Row.of("acrobot, variance", "final score", [1.0] * 9, scale="2000 episodes", command="", commit=None)
    others = [part.row for part in TARGETS["fig6"].parts[:-1]]
    (library.out / "fig6.json").write_text(as_json([row]))
    assert not complete(TARGETS["fig6"], library) and len(lines([TARGETS["fig6"]], library)[-1].missing) == 0
    (library.out / "fig6.json").write_text(as_json([row, *(replace(row, row=other) for other in others)]))
    assert complete(TARGETS["fig6"], library) and not complete(TARGETS["fig2"], library)


def test_the_cost_of_another_schedule_is_that_of_its_epochs(library):
    """The small run gives the epoch of a network whose own experiment nobody has run."""
    assert Costs(library).of("small/noise_bernoulli") == 100.0
    library.recorded = [pair for pair in library.recorded if pair[1]["config"].get("scale") == "small"]
    assert Costs(library).of("noise_bernoulli") == pytest.approx(200 * 100.0 / 20)


def test_what_is_recorded_is_not_run_again_and_the_cheapest_comes_first(library):
    jobs = library.jobs("noise_uniform") + library.jobs("noise_bernoulli") + library.jobs("noise_bernoulli", "small")
    left = without_recorded(jobs, library)
    assert [job.seed for job in left if job.experiment == "noise_bernoulli"] == [1, 2]
    order = [job.experiment for job in by_cost(left, library)]
    assert (
        order[0] == "small/noise_bernoulli"
        and order[-1] == "noise_uniform"
        and sorted(order) == sorted(job.experiment for job in left)
    )


def test_a_row_is_finished_as_it_was_begun(library, monkeypatch):
    """precision=auto: one of bf16 where there are more of them, a new one in bf16 if the processor has it."""
    (_, record) = next(pair for pair in library.recorded if pair[1]["config"]["name"] == "noise_bernoulli")
    more = [{**record, "config": {**record["config"], "precision": "bf16"}, "metrics": {**record["metrics"], "seed": s}}
            for s in (0, 1)]  # fmt: skip
    for has, wanted in ((True, {"noise_bernoulli": "bf16", "noise_uniform": "bf16"}), (False, dict.fromkeys(
            ("noise_bernoulli", "noise_uniform"), "fp32"))):  # fmt: skip
        auto = Library(3, "full", ("precision=auto",), False, library.places[0])
        auto.recorded += [(records.kind(OmegaConf.create(each["config"])), each) for each in more]
        monkeypatch.setattr("varnet.paper.library.has_bfloat16", lambda has=has: has)
        jobs = [job for name in wanted for job in auto.jobs(name)]
        assert {job.experiment: job.config().precision for job in jobs} == wanted
        left = [(job.experiment, job.seed) for job in without_recorded(jobs, auto)]
        assert left[:-3] == ([("noise_bernoulli", 2)] if has else [("noise_bernoulli", s) for s in (1, 2)])


def test_the_queue_runs_what_the_list_calls_missing(library, tmp_path, monkeypatch, capsys):
    """Records of docs/results count, at every scale that is asked for; each finished run is recorded at once."""
    (tmp_path / "docs" / "results").mkdir(parents=True)
    shutil.move(library.out / "runs", tmp_path / "docs" / "results" / "runs")
    started = []

    def run_all(_function, jobs, _at_once, done, watch):
        for index, job in enumerate(jobs):
            started.append(f"{job.experiment} {job.seed}")
            if job.seed:
                complete_run(job)
            done(index, Outcome() if job.seed else Outcome(error="it failed"))
            file = records.file_name({"config": job.config(), "metrics": {"seed": job.seed}})
            assert (tmp_path / "new" / "runs" / file).exists() == bool(job.seed)
        return [Outcome(error=None if job.seed else "it failed") for job in jobs]

    monkeypatch.setattr(queue, "run_all", run_all)
    options = ["seeds=2", "scale=full,small", f"out={tmp_path / 'new'}", "precision=fp32"]
    assert reproduce.main(["status", "noise", *options]) == 0
    told = capsys.readouterr().out
    assert "and 8 runs of unknown cost" in told and "missing=true order=cheapest jobs=2" in told
    assert reproduce.main(["noise", "missing=true", *options]) == 1, "one of them failed"
    assert len(started) == 1 + 1 + 8 and "noise_bernoulli 0" not in started and "small/noise_bernoulli 0" in started
    assert "failed: experiment=noise_uniform seed=0" in capsys.readouterr().err


def test_the_command_line(library, capsys, monkeypatch):
    monkeypatch.setattr(queue, "run_all", lambda *_: pytest.fail("a run was started"))
    assert reproduce.main(["status", "noise", f"out={library.out}", *library.overrides]) == 0
    out = capsys.readouterr().out
    assert "bernoulli" in out and "missing: 4.0 hours" in out and "uniform" in out
    assert reproduce.main(["status", "noisy"]) == 2 and "noisy is not known" in capsys.readouterr().err
    assert reproduce.main(["noise", "order=cheap"]) == 2
    assert "order=cheap is invalid: use given or cheapest" in capsys.readouterr().err
