"""What there is and what is missing: the list, and the queue that it makes."""

import shutil

import pytest

from tests.paper.by_hand import complete
from varnet.cli import reproduce
from varnet.launch import queue
from varnet.launch.queue import Job
from varnet.paper.library import Library
from varnet.paper.reproduction import TARGETS
from varnet.paper.status import Costs, by_cost, lines, summary, without_recorded


@pytest.fixture
def library(here, tmp_path):
    """One run of Bernoulli noise at full scale and one at the small one, of which only records are left."""
    complete(Job("noise_bernoulli", 0), seconds=7200.0)
    complete(Job("small/noise_bernoulli", 4), seconds=100.0, epochs=20)
    out = tmp_path / "out"
    assert reproduce.main(["noise", "run=false", f"out={out}"]) == 0
    shutil.rmtree(here)
    return Library(3, "full", (), False, out / "runs")


def test_every_row_has_a_line(library):
    found = {line.row: line for line in lines([TARGETS["noise"]], library, 3)}
    assert list(found) == ["gaussian", "bernoulli", "uniform"]
    assert found["bernoulli"].runs == {"full": 1, "small": 1} and found["bernoulli"].missing == 2
    assert found["bernoulli"].published == "20 samples, % 98.70" and found["bernoulli"].precision == "fp32"
    assert found["bernoulli"].seconds == 7200.0 and found["uniform"].seconds is None
    assert found["uniform"].missing == 3 and found["uniform"].runs["full"] == 0
    assert summary(list(found.values())) == "missing: 4.0 hours, one run after the other, and 6 runs of unknown cost"


def test_all_targets_have_lines_and_a_shared_run_counts_once(library):
    every = lines(TARGETS.values(), library, 1)
    assert {line.target for line in every} == {name for name, target in TARGETS.items() if target.experiments}
    assert [line.missing for line in every if line.row == "toy"] == [8]  # Figure 1 takes eight at least
    twice = [line for line in every if line.experiment == "table1_zero_mean"]
    assert len(twice) > 1 and "1 runs" in summary(twice)


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


def test_the_command_line(library, capsys, monkeypatch):
    monkeypatch.setattr(queue, "run_all", lambda *_: pytest.fail("a run was started"))
    assert reproduce.main(["status", "noise", f"out={library.out}", *library.overrides]) == 0
    out = capsys.readouterr().out
    assert "bernoulli" in out and "missing: 4.0 hours" in out and "uniform" in out
    assert reproduce.main(["status", "noisy"]) == 2 and "noisy is not known" in capsys.readouterr().err
    assert reproduce.main(["noise", "order=cheap"]) == 2
    assert "order=cheap is invalid: use given or cheapest" in capsys.readouterr().err
