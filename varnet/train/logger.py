"""What a run writes while it goes on: history.jsonl, TensorBoard events, a progress bar on a terminal."""

import io
import json
import logging
import math
import os
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from varnet.base.files import PASSING, append, appending, content, replace, write_atomically
from varnet.base.lock import check_held
from varnet.base.nested import flat
from varnet.evaluation.sparsity import compression, has_threshold, sparsity
from varnet.nn.layers import layers_of
from varnet.train import events
from varnet.train.history import HISTORY, LONGEST, Copy, rows, unpacked

log = logging.getLogger("varnet")
MODES = ("det", "1", "k", "zero_mean_k")
ACCURACIES = tuple(f"acc_{mode}" for mode in MODES)
HEADLINES = {"acc": "test accuracy, %", "rmse": "test RMSE", "nll": "test NLL"}  # what a likelihood is watched by
SHOWN = (  # columns of the HPARAMS tab: what is mostly swept
    "seed", "dataset.name", "dataset.target", "model.name", "model.target", "model.width", "param.name", "prior.name",
    "likelihood.name", "schedule.epochs", "schedule.lr", "schedule.beta",
    "schedule.log_alpha.lr_mult", "schedule.log_alpha.beta2",
)  # fmt: skip


def weights_summary(model: nn.Module) -> tuple[dict, dict[str, Tensor]]:
    """KL and log alpha (mean, min, max) of every variational layer, for the history; log alphas for the histograms."""
    kl, summary, values = {}, {}, {}
    with torch.no_grad():
        for name, layer in layers_of(model).items():
            kl[name] = float(layer.kl())  # prior=student, estimator=mc: one sample
            log_alpha = layer.param.log_alpha_of(layer).float().flatten().cpu()
            if torch.isfinite(log_alpha).all():  # infinite for zero_mean
                values[name] = log_alpha
                summary[name] = {
                    "mean": float(log_alpha.mean()), "min": float(log_alpha.min()), "max": float(log_alpha.max()),
                }  # fmt: skip
    row = {"kl_by_layer": kl, "log_alpha": summary}
    if has_threshold(layers_of(model).values()):
        row |= {"sparsity": sparsity(model), "compression": compression(model)}
    return row, values


class Logger:
    """One line of history per epoch and the same numbers in TensorBoard, under the same names."""

    def __init__(self, folder: Path, epochs: int = 0, step: int = 0, copy: Tensor | None = None, headline: str = "acc"):
        """epochs, step and copy of the history in the checkpoint from which the run goes on; what its likelihood is
        watched by."""
        from varnet.train.event_writer import EventWriter

        self.folder = folder
        text = self._kept(epochs, copy)
        self.copy, before = Copy(text), rows(text)
        self.last = before[-1] if before else {}
        self.seconds = float(sum(row.get("seconds", 0) for row in before))  # of training, all epochs
        events.keep(folder, self.last.get("step", step) if epochs else 0)
        self.writer = EventWriter(folder)
        self.writer.add_custom_scalars(
            {
                "phase transition": {
                    HEADLINES[headline]: ["Multiline", [f"test/{headline}_{mode}$" for mode in MODES]],
                    "log alpha": ["Multiline", ["log_alpha/.*"]],
                    "data term": ["Multiline", ["train/data_term$"]],
                    "KL": ["Multiline", ["train/kl$"]],
                }
            }
        )

    def _kept(self, epochs: int, copy: Tensor | None) -> bytes:
        """The epochs that the checkpoint knows, in the file too; later ones are run again."""
        path = self.folder / HISTORY
        try:
            found = content(path)
        except OSError:
            found = b""
        if copy is not None:
            text = unpacked(copy, epochs * LONGEST)
            damage = "" if found.startswith(text) else "it is made anew from the checkpoint"
        else:  # a checkpoint of an earlier version, or none
            text = b"".join(
                line + b"\n" for line in found.splitlines()[: sum(r["epoch"] <= epochs for r in rows(found))]
            )
            lost = epochs - text.count(b"\n")
            damage = f"{lost} of its {epochs} epochs are lost to curves and tables; the run goes on" if lost else ""
        if damage:
            log.warning("%s is damaged or missing: %s", path, damage)
            if found:
                replace(path, path.with_name(path.name + ".damaged"))
        write_atomically(path, text)
        return text

    @property
    def history(self) -> list[dict]:
        """All lines so far. They do not stay in memory."""
        return rows(self.copy.text())

    def epoch(self, row: dict, log_alphas: dict[str, Tensor], step: int) -> None:
        self.last, line = row, (json.dumps(row) + "\n").encode()
        self.seconds += row.get("seconds", 0)
        check_held(self.folder)
        append(self.folder / HISTORY, line)
        self.copy.add(line)
        for tag, value in scalars(row).items():
            self.writer.add_scalar(tag, value, step)
        for name, values in log_alphas.items():
            if len(values) > 1:
                self.writer.add_histogram(f"log_alpha_histogram/{name}", values, step)
        self.writer.flush()

    def sync(self) -> Tensor:
        """Onto the disk, before a checkpoint counts on it; a wait for the disk at every short epoch would be slow.
        Returns the copy for the checkpoint."""
        path = self.folder / HISTORY
        try:
            with appending(path) as file:
                whole = os.fstat(file.fileno()).st_size == self.copy.size
                os.fsync(file.fileno())
        except OSError as error:  # of which nobody knows what it has left
            whole = False
            if error.errno not in PASSING:
                raise
        if not whole:
            log.warning("%s is not as its run has written it: it is made anew", path)
            write_atomically(path, self.copy.text())
        return self.copy.packed()

    def figure(self, png: bytes, step: int) -> None:
        from PIL import Image

        write_atomically(self.folder / "phase_transition.png", png)
        pixels = np.array(Image.open(io.BytesIO(png)).convert("RGB"))
        self.writer.add_image("phase_transition", pixels, step, dataformats="HWC")
        self.writer.flush()

    def hyperparameters(self, config: dict, metrics: dict) -> None:
        """The HPARAMS tab, in this run's own events."""
        from torch.utils.tensorboard.summary import hparams

        chosen = {k: v for k, v in flat(config).items() if k in SHOWN and v is not None}
        values = {k: v if isinstance(v, int | float | bool) else str(v) for k, v in chosen.items()}
        results = {f"final/{k}": v for k, v in metrics.items() if isinstance(v, int | float) and math.isfinite(v)}
        for summary in hparams(values, results):
            self.writer.file_writer.add_summary(summary)
        for tag, value in results.items():
            self.writer.add_scalar(tag, value, 0)
        self.writer.flush()


def scalars(row: dict) -> dict[str, float]:
    """TensorBoard tags of a line of history."""
    tags = {}
    for key, value in row.items():
        if key == "kl_by_layer":
            tags |= {f"kl/{name}": v for name, v in value.items()}
        elif key == "sparsity":
            tags |= {f"sparsity/{name}": v for name, v in value.items()}
        elif key == "log_alpha":
            tags |= {f"log_alpha/{name}": v["mean"] for name, v in value.items()}
            tags |= {f"log_alpha_{end}/{name}": v[end] for name, v in value.items() for end in ("min", "max")}
        elif value is not None and key not in ("epoch", "step"):
            group = dict.fromkeys(("acc", "nll", "rmse", "coverage", "calibration", "brier", "ece"), "test")
            group |= {"lr": "schedule", "beta": "schedule", "seconds": "speed"}
            tags[f"{group.get(key.split('_')[0], 'speed' if 'per_second' in key else 'train')}/{key}"] = value
    return tags


class Progress:
    """A bar with the time that is left on a terminal; one line per evaluation elsewhere."""

    def __init__(self, total: int, done: int):
        self.bar = None
        if sys.stdout.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, TextColumn("{task.fields[note]}", markup=False))
            self.task = self.bar.add_task("epochs", total=total, completed=done, note="")

    def __enter__(self) -> "Progress":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_) -> None:
        if self.bar:
            self.bar.stop()

    def update(self, row: dict, total: int) -> None:
        note = note_of(row)
        if self.bar:
            fields = {"note": note} if note else {}
            self.bar.update(self.task, completed=row["epoch"], **fields)
        elif note:
            print(f"epoch {row['epoch']}/{total}  {note}", flush=True)


def headline(row: dict) -> str | None:
    """What a line of history or the metrics are watched by; None where nothing was evaluated."""
    return next((what for what in HEADLINES if row.get(f"{what}_det") is not None), None)


def note_of(row: dict) -> str:
    """The numbers one watches: accuracies (or errors), ELBO, log alphas."""
    what = headline(row)
    if what is None:
        return ""
    digits = ".1f" if what == "acc" else ".4g"
    det, one, many, zero = (row[f"{what}_{mode}"] for mode in MODES)
    zero_mean = "" if zero is None else f", zero-mean {zero:{digits}}"
    alphas = " ".join(f"{name} {a['mean']:.1f}" for name, a in list(row["log_alpha"].items())[:4])
    parts = f"{what} det {det:{digits}}, 1 {one:{digits}}, K {many:{digits}}{zero_mean}  ELBO {row['elbo']:.4g}"
    if "compression" in row:
        return f"{parts}  compression {row['compression']:.1f}"
    return f"{parts}  log alpha {alphas}" if alphas else parts
