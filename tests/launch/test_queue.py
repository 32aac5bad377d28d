"""A queue of experiments: what fails is told, and the time that is left."""

from varnet.launch import queue
from varnet.launch.queue import Job


def test_a_run_that_fails_is_reported_and_the_others_go_on(tmp_path):
    here = (f"out_dir={tmp_path}",)
    good = Job("small/toy", 0, (*here, "threads=1", "schedule.epochs=2", "dataset.train_size=40"))
    bad = Job("small/toy", 0, (*here, "schedule.epochs=2", "data_dir=null", "schedule.lr=-1"))
    failed = queue.run_queue([bad, good], at_once=1)
    assert len(failed) == 1 and "schedule.lr=-1" in failed[0] and good.folder().joinpath("metrics.json").exists()
    (good.folder() / "metrics.json").unlink()
    assert queue.run_queue([good], at_once=1) == []
    assert "going on after epoch 2" in queue.log_of(good).read_text(), "the log says what a run tells"


def test_time_left():
    assert queue.time_left(1.0, 0.0, 3.0, 1800) == "1 h 00 min left"
    assert queue.time_left(2.5, 2.0, 3.0, 60) == "2 min left"
    assert queue.time_left(2.0, 2.0, 3.0, 60) == "time left not known yet"
