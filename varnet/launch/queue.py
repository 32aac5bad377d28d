"""Experiments in a queue: a few runs of train.py at a time, one progress, one estimate of the time that is left."""

import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig

from varnet.base.files import appending
from varnet.launch.pool import Outcome, run_all
from varnet.runs import life
from varnet.runs.composing import composed
from varnet.runs.folder import finished, folder_of
from varnet.runs.training import TRAINING
from varnet.train.history import HISTORY

REPORT_EVERY = 60.0  # seconds between two lines where there is no terminal


class Job(NamedTuple):
    """One run: an experiment, its scale in its name, with a seed."""

    experiment: str
    seed: int
    overrides: tuple[str, ...] = ()
    precision: str | None = None  # chosen for this run; None: as the overrides have it

    def config(self) -> DictConfig:
        cfg = composed(f"experiment={self.experiment}", *self.overrides)
        cfg.seed = self.seed
        cfg.precision = self.precision or cfg.precision
        return cfg

    def arguments(self) -> list[str]:
        own = [f"precision={self.precision}"] if self.precision else []
        return [f"experiment={self.experiment}", f"seed={self.seed}", *self.overrides, *own]

    def folder(self) -> Path:
        return folder_of(self.config())

    def before(self) -> "Job | None":
        """The run whose weights this one starts from."""
        name = self.config().get("init_experiment")
        return None if name is None else self._replace(experiment=name)


def run_queue(jobs: list[Job], at_once: int, after: Callable[[Job], None] = lambda job: None) -> list[str]:
    """Run what is not finished, first what others start from, with `after` for every run that is; a sentence for each
    that failed."""
    first = _first(jobs)
    failed = run_queue(first, at_once, after) if first else []
    return failed + _run_missing([job for job in jobs if job not in first], at_once, after)


def _run_missing(jobs: list[Job], at_once: int, after: Callable[[Job], None]) -> list[str]:
    missing = [job for job in jobs if not finished(job.folder())]
    if done := len(jobs) - len(missing):
        print(f"{done} of {len(jobs)} runs are finished already")
    if not missing:
        return []
    board = Board(missing)

    def ended(index: int, outcome: Outcome) -> None:
        if outcome.error is None:
            after(missing[index])

    with contextlib.closing(board):
        outcomes = run_all(
            trained, missing, at_once, ended, watch=lambda active: board.show([missing[i] for i in active])
        )
    return [_failure(job, outcome) for job, outcome in zip(missing, outcomes, strict=True) if outcome.error]


def _first(jobs: list[Job]) -> list[Job]:
    """The runs that missing ones start from and that are missing, too."""
    missing = [job for job in jobs if not finished(job.folder())]
    before = dict.fromkeys(before for job in missing if (before := job.before()))
    return [job for job in before if not finished(job.folder())]


def trained(job: Job) -> None:
    """One run, in a process of its own; what it prints goes into a log beside its folder."""
    log_of(job).parent.mkdir(parents=True, exist_ok=True)
    with appending(log_of(job)) as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout, force=True)
    life.run(TRAINING, job.config())


def log_of(job: Job) -> Path:
    """The file of what a run prints."""
    folder = job.folder()
    return folder.parent / f"{folder.name}.log"


def _failure(job: Job, outcome: Outcome) -> str:
    return f"failed: {' '.join(job.arguments())}: {outcome.error} ({log_of(job)})"


def progress(job: Job) -> float:
    """Part of a run's epochs that is done."""
    folder = job.folder()
    if finished(folder):
        return 1.0
    try:
        lines = (folder / HISTORY).read_bytes().splitlines()
        return json.loads(lines[-1])["epoch"] / job.config().schedule.epochs
    except (OSError, ValueError, LookupError, TypeError, RecursionError):  # it is being written, or damaged
        return 0.0


class Board:
    """Shows how much of all runs is done: a bar on a terminal, a line a minute elsewhere."""

    def __init__(self, jobs: list[Job]):
        from rich.progress import BarColumn, Progress, TextColumn

        self.jobs, self.begin, self.last = jobs, time.monotonic(), 0.0
        self.start = sum(map(progress, jobs))
        self.bar = None
        if sys.stdout.isatty():
            self.bar = Progress(TextColumn("runs"), BarColumn(), TextColumn("{task.fields[note]}", markup=False))
            self.task = self.bar.add_task("runs", total=len(jobs), note="")
            self.bar.start()

    def show(self, active: list[Job]) -> None:
        now = time.monotonic()
        if self.bar is None and now - self.last < REPORT_EVERY and self.last:
            return
        self.last = now
        done = sum(map(progress, self.jobs))
        note = f"{done:.2f} of {len(self.jobs)} runs, {time_left(done, self.start, len(self.jobs), now - self.begin)}"
        note += "".join(f"; {job.experiment} seed {job.seed}: {100 * progress(job):.0f} %" for job in active)
        if self.bar:
            self.bar.update(self.task, completed=done, note=note)
        else:
            print(note, flush=True)

    def close(self) -> None:
        if self.bar:
            self.bar.stop()


def time_left(done: float, start: float, total: float, seconds: float) -> str:
    """The time that is left at the speed since the start; runs are taken to last equally long."""
    if done - start < 1e-9:
        return "time left not known yet"
    left = int(seconds * (total - done) / (done - start))
    return f"{left // 3600} h {left % 3600 // 60:02d} min left" if left >= 3600 else f"{left // 60 + 1} min left"
