"""A tiny run that everything is tried on: whatever happens to it, it comes to the same numbers, bit for bit."""

import contextlib
import io
import itertools
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from omegaconf import DictConfig

from tests.composing import tiny
from varnet.cli.train import run
from varnet.errors import Interrupted
from varnet.runs.folder import folder_of
from varnet.train import checkpoint
from varnet.train.trainer import Trainer

OPTIONS = ("schedule.epochs=4", "checkpoint_every=1", "param=layer")
TIMES = ("seconds", "images_per_second", "commit", "machine", "versions")  # what may differ


class World:
    """Folders of runs to be damaged, and the run that nothing has happened to."""

    def __init__(self, place: Path):
        self.place, self.numbers = place, itertools.count()
        cfg, begin = self.config(), time.monotonic()
        self.metrics = self.finish(cfg)
        self.seconds = time.monotonic() - begin
        self.whole = folder_of(cfg)
        self.half = self._half()

    def config(self) -> DictConfig:
        """Of a run in a folder of its own."""
        return tiny(self.place / str(next(self.numbers)), *OPTIONS)

    def copy(self, of: Path) -> DictConfig:
        """The configuration of a run whose folder is a copy."""
        cfg = self.config()
        shutil.copytree(of, folder_of(cfg))
        return cfg

    def clear(self, cfg: DictConfig) -> None:
        shutil.rmtree(cfg.out_dir, ignore_errors=True)

    def finish(self, cfg: DictConfig) -> dict:
        with silent():
            return run(cfg)

    def differs(self, cfg: DictConfig, metrics: dict) -> str | None:
        """In what the run of this configuration, at its end, is another than the whole one."""
        folder = folder_of(cfg)
        for key, tensor in checkpoint.read(self.whole / checkpoint.NAME)["model"].items():
            if not torch.equal(tensor, checkpoint.read(folder / checkpoint.NAME)["model"][key]):
                return f"{key} is another"
        if _timeless(metrics) != _timeless(self.metrics):
            return "the metrics are others"
        if _timeless(json.loads((folder / "metrics.json").read_text())) != _timeless(self.metrics):
            return "metrics.json is another"
        return None if _history(folder) == _history(self.whole) else "the history is another"

    def _half(self) -> Path:
        """A run that was stopped in its third epoch."""
        cfg, step = self.config(), Trainer.train_step

        def stopped(self, x, y):
            step(self, x, y)
            if self.step == 5:
                self.signal = 15

        Trainer.train_step = stopped
        try:
            with contextlib.suppress(Interrupted):
                self.finish(cfg)
        finally:
            Trainer.train_step = step
        return folder_of(cfg)


def _timeless(values: dict) -> dict:
    return {key: value for key, value in values.items() if key not in TIMES}


def _history(folder: Path) -> list[dict]:
    return [_timeless(json.loads(line)) for line in (folder / "history.jsonl").read_text().splitlines()]


@contextlib.contextmanager
def silent() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def quiet_for_good() -> None:
    """For a child that is going to be killed."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
