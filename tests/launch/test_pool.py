"""Many runs at a time: one that fails, dies or is stopped leaves the others alone."""

import os
import signal
import time

import pytest

from tests.processes import HANG, wait_for
from tests.rl.small_runs import assert_equal_runs, at_episode, rows, tiny
from varnet.errors import Interrupted
from varnet.launch import pool
from varnet.rl.run import run
from varnet.runs.folder import folder_of
from varnet.train import checkpoint

pytest.importorskip("gymnasium", reason="pip install 'varnet[rl]'")


def killed_at_eight(cfg):
    """A run that is killed without warning, three episodes after a checkpoint."""
    at_episode(8, lambda _: os.kill(os.getpid(), signal.SIGKILL), pytest.MonkeyPatch())
    run(cfg)


def failing(number: int) -> int:
    if number == 1:
        raise ValueError("one is\nwrong")
    if number == 2:
        os._exit(7)
    return 10 * number


def test_processes_that_fail_or_die_leave_the_others_alone(tmp_path):
    seen = {}
    outcomes = pool.run_all(failing, [0, 1, 2, 3], jobs=2, done=seen.__setitem__)
    assert [o.result for o in outcomes] == [0, None, None, 30] and seen == dict(enumerate(outcomes))
    assert outcomes[1].error == "one is wrong" and "exit code 7" in outcomes[2].error

    whole, cut = (tiny(tmp_path / part) for part in ("whole", "cut"))  # in a process already begun: see above
    run(whole)
    (outcome,) = pool.run_all(killed_at_eight, [cut])
    assert "SIGKILL" in outcome.error and len(checkpoint.load(folder_of(cut))["history"]) == 5
    run(cut)
    assert_equal_runs(folder_of(whole), folder_of(cut))


def test_a_signal_stops_a_sweep_whose_runs_save(tmp_path):
    short, long, later = tiny(tmp_path), tiny(tmp_path, "schedule.episodes=1000000"), tiny(tmp_path, "seed=1")

    def stop_once_the_other_has_saved(*_):
        if (folder_of(short) / "metrics.json").exists() and not stopped:
            wait_for(lambda: checkpoint.exists(folder_of(long)))
            stopped.append(os.kill(os.getpid(), signal.SIGTERM))

    stopped = []
    with pytest.raises(Interrupted) as caught:
        pool.run_all(run, [short, long, later], 2, stop_once_the_other_has_saved)
    assert caught.value.exit_code == 143 and not folder_of(later).exists()
    saved = checkpoint.load(folder_of(long))["history"]
    assert len(saved) >= 5 and rows(folder_of(long)) == saved


def test_a_signal_while_a_run_is_starting_reaches_it(monkeypatch):
    start = pool._start

    def interrupted(*given):
        found = start(*given)
        signal.raise_signal(signal.SIGTERM)
        return found

    monkeypatch.setattr(pool, "_start", interrupted)
    begun = time.monotonic()
    with pytest.raises(Interrupted):
        pool.run_all(time.sleep, [2 * HANG], jobs=1)
    assert time.monotonic() - begun < HANG
