"""Run folders -> groups of runs that differ in their seed alone -> mean and standard deviation, as tables.

Only what a run has written is read: .hydra/config.yaml, metrics.json, history.jsonl. Runs without metrics.json are
listed and never averaged.

    runs = read(["outputs"])
    for one in group(runs):
        print(one.label, one.mean("acc_k"), one.std("acc_k"), len(one.runs))
"""

import csv
import io
import json
import logging
import math
import os
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from varnet.base.checks import shown
from varnet.base.nested import flat
from varnet.base.plots import DRAWN
from varnet.base.text import plain_text
from varnet.errors import ConfigError
from varnet.runs import stored
from varnet.runs.folder import CONFIG, finished
from varnet.runs.identity import identity_of
from varnet.runs.past import history

log = logging.getLogger("varnet")
METRICS = (
    "acc_1", "acc_det", "acc_k", "acc_zero_mean_k", "rmse_1", "rmse_det", "rmse_k", "rmse_zero_mean_k", "coverage_k",
    "calibration_k", "elbo", "data_term", "kl",
)  # fmt: skip
Table = list[list[str]]  # the header first
Curves = dict[str, list]  # what is drawn by epoch: "epoch" and metrics, None where there is no value


@dataclass(frozen=True)
class Run:
    """What a run has written."""

    folder: Path
    config: dict  # as saved, resolved; empty if it cannot be read
    metrics: dict | None  # None: it is not finished
    curves: Curves

    @property
    def progress(self) -> str:
        if not self.config:
            return f"{CONFIG} cannot be read"
        return f"{(self.curves['epoch'] or [0])[-1]} of {self.config['schedule']['epochs']} epochs"

    def values(self, metric: str) -> dict[int, float]:
        """Epoch -> value, where there is one."""
        found = zip(self.curves["epoch"], self.curves[metric], strict=True) if metric in self.curves else ()
        return {epoch: value for epoch, value in found if value is not None}


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in nothing but their seed."""

    label: dict[str, object]  # what distinguishes it from the other groups: {"param": "layer"}
    runs: list[Run]

    def values(self, metric: str) -> list[float]:
        found = [run.metrics.get(metric) for run in self.runs]
        return [] if None in found else found

    def mean(self, metric: str) -> float | None:
        """None where the metric has no meaning."""
        values = self.values(metric)
        return statistics.fmean(values) if values else None

    def std(self, metric: str) -> float | None:
        """The standard deviation of the sample (n - 1); None for one run."""
        values = self.values(metric)
        return statistics.stdev(values) if len(values) > 1 else None

    def curve(self, metric: str) -> tuple[list[int], list[list[float]]]:
        """Epochs at which every run has the metric, and its values there, run by run."""
        rows = [run.values(metric) for run in self.runs]
        epochs = sorted(set.intersection(*(set(row) for row in rows)))
        return epochs, [[row[epoch] for epoch in epochs] for row in rows]

    @property
    def title(self) -> str:
        return ", ".join(f"{key}={shown(value)}" for key, value in self.label.items())


# ---- reading


def read(folders: Iterable[str | Path]) -> list[Run]:
    """The runs in some folders, at any depth, each once, in the order of their names."""
    found: dict[Path, Run] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder: name folders of runs, or what holds them, e.g. outputs")
        inside = sorted(_inside(folder))
        if not inside:
            raise ConfigError(f"{folder} holds no run: name folders of runs, or what holds them, e.g. outputs")
        for path in inside:
            if (place := path.resolve()) not in found:
                found[place] = read_run(path)
    return list(found.values())


def _inside(folder: Path) -> list[Path]:
    """The folders of runs in a folder, itself among them."""
    own, name = os.path.split(CONFIG)
    found = []
    for place, folders, _ in os.walk(folder):
        if own in folders:
            folders.remove(own)
            if os.path.exists(os.path.join(place, own, name)):
                found.append(Path(place))
    return found


def read_run(folder: Path) -> Run:
    """The run in a folder, as far as it can be read."""
    try:
        config = stored.load_plain(folder / CONFIG)
        setting(config), config["schedule"]["epochs"]
    except Exception:  # damaged, or of something else
        return Run(folder, {}, None, _curves([]))
    return Run(folder, config, finished(folder), _curves(_lines(folder)))


def setting(config: dict) -> dict:
    """Key -> value of all that makes a run what it is, but its seed; lists as text, so that they can be compared."""
    values = flat(identity_of(config))
    return {key: json.dumps(v) if isinstance(v, list) else v for key, v in values.items() if key != "seed"}


def _lines(folder: Path) -> list[dict]:
    """The history of a run, whose last line may be cut off; none where it is damaged and nothing has a copy."""
    try:
        return history(folder)
    except ConfigError as error:
        log.warning("%s", error)
        return []


def _curves(rows: list[dict]) -> Curves:
    """What is drawn of a history, as columns: of thousands of runs rows would fill the memory."""
    curves: Curves = {"epoch": [row["epoch"] for row in rows]}
    for metric in (one for one in DRAWN if any(one in row for row in rows)):
        values = (row.get(metric) for row in rows)
        curves[metric] = [value if isinstance(value, int | float) else None for value in values]
    return curves


# ---- grouping


def group(runs: Iterable[Run]) -> list[Group]:
    """The finished runs by everything but their seed, in the order in which they come."""
    done = [run for run in runs if run.metrics is not None]
    settings = [setting(run.config) for run in done]
    keys = distinguishing(settings)
    groups: dict[tuple, Group] = {}
    for run, values in zip(done, settings, strict=True):
        label = {key.removesuffix(".name"): values.get(key) for key in keys}
        groups.setdefault(tuple(label.values()), Group(label, [])).runs.append(run)
    return list(groups.values())


def distinguishing(settings: list[dict]) -> list[str]:
    """Few keys, names of choices first, that tell apart all settings that differ: options that come with a choice need
    no column of their own."""
    keys = {key for values in settings for key in values}
    chosen: list[str] = []
    for key in sorted(keys, key=lambda key: (not key.endswith(".name"), key)):
        if _distinct(settings, [*chosen, key]) > _distinct(settings, chosen):
            chosen.append(key)
    return chosen


def _distinct(settings: list[dict], keys: list[str]) -> int:
    return len({tuple(values.get(key) for key in keys) for values in settings})


# ---- tables


def table(groups: list[Group], metrics: Iterable[str] = METRICS) -> Table:
    """mean +- std of every metric that some group has."""
    metrics = [m for m in metrics if any(one.mean(m) is not None for one in groups)]
    labels = list(groups[0].label) if groups else []
    rows = [
        [*(plain_text(shown(value)) for value in g.label.values()), str(len(g.runs)), *(cell(g, m) for m in metrics)]
        for g in groups
    ]
    return [[*map(plain_text, labels), "n", *metrics], *rows]


def cell(group: Group, metric: str) -> str:
    """Mean +- standard deviation, with the digits that the latter leaves."""
    mean, std = group.mean(metric), group.std(metric)
    if mean is None:
        return "-"
    digits = 2 if metric.startswith("acc") else decimals(mean if std is None else std or mean)
    return f"{mean:.{digits}f} +- " + ("-" if std is None else f"{std:.{digits}f}")


def decimals(spread: float) -> int:
    """So many that a spread of this size shows two digits."""
    return min(6, max(0, 1 - math.floor(math.log10(abs(spread))))) if spread and math.isfinite(spread) else 2


def markdown(rows: Table) -> str:
    """The table as Markdown; no cell ends early or begins a tag."""
    lines = ["| " + " | ".join(cell.replace("|", r"\|").replace("<", "&lt;") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def as_csv(groups: list[Group]) -> str:
    """Every number of metrics.json in full precision; std is empty for one run."""
    numbers = [(key, v) for one in groups for run in one.runs for key, v in run.metrics.items() if key != "seed"]
    names = dict.fromkeys(key for key, value in numbers if isinstance(value, int | float))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    labels = list(groups[0].label) if groups else []
    header = [*labels, "n", *(f"{name}_{what}" for name in names for what in ("mean", "std"))]
    writer.writerow(map(_no_formula, header))
    for one in groups:
        values = (value for name in names for value in (one.mean(name), one.std(name)))
        writer.writerow([*map(_no_formula, one.label.values()), len(one.runs), *values])
    return out.getvalue()


def _no_formula(value: object) -> str:
    """A cell that a spreadsheet shows and does not run; a number keeps its sign."""
    text = plain_text(shown(value))
    return f"'{text}" if isinstance(value, str) and text.startswith(("=", "+", "-", "@")) else text


def incomplete(runs: Iterable[Run]) -> list[str]:
    """A line for every run that is not finished."""
    return [plain_text(f"{run.folder}: {run.progress}") for run in runs if run.metrics is None]
