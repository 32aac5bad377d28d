"""Several runs of train.py, a few at a time, with one progress and one estimate of the time that is left."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from varnet import run
from varnet.reproduction import Job

PAUSE = 2.0  # seconds between two looks at the runs
REPORT_EVERY = 60.0  # seconds between two lines where there is no terminal


def run_all(jobs: list[Job], at_once: int, root: Path) -> list[str]:
    """Run what is not finished; a sentence for every run that failed."""
    missing = [job for job in jobs if not run.finished(job.folder())]
    if done := len(jobs) - len(missing):
        print(f"{done} of {len(jobs)} runs are finished already")
    if not missing:
        return []
    board = Board(missing)
    active: dict[Job, subprocess.Popen] = {}
    waiting, failed = list(missing), []
    try:
        while waiting or active:
            while waiting and len(active) < at_once:
                job = waiting.pop(0)
                active[job] = start(job, root)
            time.sleep(PAUSE)
            for job, process in list(active.items()):
                if process.poll() is not None:
                    del active[job]
                    failed += [_failure(job, process)] if process.returncode else []
            board.show(list(active))
    except KeyboardInterrupt:
        stop(active)
        raise
    finally:
        board.close()
    return failed


def log_of(job: Job) -> Path:
    folder = job.folder()
    return folder.parent / f"{folder.name}.log"


def start(job: Job, root: Path) -> subprocess.Popen:
    log_of(job).parent.mkdir(parents=True, exist_ok=True)
    with open(log_of(job), "a") as log:
        command = [sys.executable, str(root / "train.py"), *job.arguments()]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def stop(active: dict[Job, subprocess.Popen]) -> None:
    """Ask every run to save and end."""
    for process in active.values():
        process.send_signal(signal.SIGTERM)
    for process in active.values():
        process.wait()


def _failure(job: Job, process: subprocess.Popen) -> str:
    last = [line for line in log_of(job).read_text().splitlines() if line.strip()][-1:]
    return f"failed (exit code {process.returncode}): {' '.join(job.arguments())}: {''.join(last)} ({log_of(job)})"


def progress(job: Job) -> float:
    """Part of a run's epochs that is done."""
    folder = job.folder()
    if run.finished(folder):
        return 1.0
    try:
        lines = (folder / run.HISTORY).read_bytes().splitlines()
        return json.loads(lines[-1])["epoch"] / job.config().schedule.epochs
    except (OSError, ValueError, IndexError):
        return 0.0


class Board:
    """How much of all runs is done: a bar on a terminal, a line a minute elsewhere."""

    def __init__(self, jobs: list[Job]):
        from rich.progress import BarColumn, Progress, TextColumn

        self.jobs, self.begin, self.last = jobs, time.monotonic(), 0.0
        self.start = sum(map(progress, jobs))
        self.bar = None
        if sys.stdout.isatty():
            self.bar = Progress(TextColumn("runs"), BarColumn(), TextColumn("{task.fields[note]}"))
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
    """From the speed since the start; runs are taken to last equally long."""
    if done - start < 1e-9:
        return "time left not known yet"
    left = int(seconds * (total - done) / (done - start))
    return f"{left // 3600} h {left % 3600 // 60:02d} min left" if left >= 3600 else f"{left // 60 + 1} min left"
