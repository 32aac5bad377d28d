"""A run that starts from the weights of another experiment's run of the same seed."""

import pytest
import torch

from tests.composing import tiny
from tests.nn.refused import assert_refused
from varnet.cli.train import run
from varnet.launch import queue
from varnet.launch.queue import Job
from varnet.runs import beginning
from varnet.runs.folder import folder_of
from varnet.runs.opening import open_finished


@pytest.mark.usefixtures("unpictured")
def test_a_run_starts_from_that_of_another_experiment(tmp_path, monkeypatch):
    def original(*_):
        return tiny(tmp_path / "elsewhere", "model=lenet300", "param=deterministic")

    monkeypatch.setattr(beginning, "composed", original)
    changes = ("model=lenet300", "param=additive", "param.layers=all", "init_experiment=original_lenet300")
    cfg = tiny(tmp_path, *changes, "schedule.lr=1e-9", "seed=1")
    assert_refused(
        lambda: run(cfg), "init_experiment", "has no finished run", f"seed=1 precision=fp32 out_dir={tmp_path}"
    )
    before = beginning.original(cfg)
    assert (before.seed, before.out_dir) == (1, str(tmp_path))
    run(before)
    assert beginning.beginning(cfg) == folder_of(before)
    metrics = run(cfg)
    trained, found = (open_finished(folder_of(each)).model for each in (before, cfg))
    torch.testing.assert_close(found.dense2.mu, trained.dense2.weight, rtol=0, atol=1e-6)
    assert metrics["pruned"]["compression"] >= 1 and metrics["pruned"]["sparsity"].keys() == {
        "dense1",
        "dense2",
        "dense3",
    }


def test_runs_come_after_those_that_they_start_from(tmp_path, monkeypatch):
    place = (f"out_dir={tmp_path}",)
    sparse, original = (Job(f"small/{kind}_vgg_w025", 2, place) for kind in ("sparse", "original"))
    assert sparse.before() == original and original.before() is None
    rounds = []
    monkeypatch.setattr(
        queue, "_run_missing", lambda jobs, at_once, after: rounds.append(jobs) or [f"{len(jobs)} failed"]
    )
    assert queue.run_queue([sparse, original, sparse._replace(seed=3)], 1) == ["2 failed", "2 failed"]
    assert rounds == [[original, original._replace(seed=3)], [sparse, sparse._replace(seed=3)]]
