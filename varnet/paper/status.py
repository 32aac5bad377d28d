"""What there is of every row, what is missing of it, and what that costs by the times of earlier runs."""

import statistics
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from omegaconf import DictConfig, OmegaConf

from varnet.base import terminal
from varnet.launch.queue import Job
from varnet.paper.library import Library, described
from varnet.paper.targets import Part, Target
from varnet.report.row import read
from varnet.report.tables import SCALES, label, name_at, number

if TYPE_CHECKING:
    from rich.table import Table

NETWORK = ("dataset.name", "model.name", "model.width", "param.name", "param.layers", "param.noise")  # costs alike
COLUMNS = ("full", "small")  # scales with a column of their own


class Line(NamedTuple):
    """One row of a target, or one experiment of a figure."""

    target: str
    row: str
    experiment: str | None  # None: its runs are none of train.py
    published: str
    runs: dict[str, dict[str, int]]  # scale -> precision -> finished runs, of the scales that the experiment has
    missing: dict[Path, float | None]  # folder of a run that is to be made -> seconds; None: no run tells


class Costs:
    """Seconds of a run: of the same experiment, else by the epoch of the same network in another one."""

    def __init__(self, library: Library):
        self.library = library
        self.by_network: dict[tuple, list[float]] = {}
        for _, record in library.recorded:
            metrics = record["metrics"]
            if metrics.get("seconds") and metrics.get("epochs"):
                network = _network(OmegaConf.create(record["config"]))
                self.by_network.setdefault(network, []).append(metrics["seconds"] / metrics["epochs"])

    def of(self, name: str) -> float | None:
        """Of one run of an experiment, named with its scale."""
        own = [found["seconds"] for found in self.library.metrics(name) if found.get("seconds")]
        if own:
            return statistics.fmean(own)
        cfg = Job(name, 0, self.library.overrides).config()
        alike = self.by_network.get(_network(cfg))
        return statistics.fmean(alike) * cfg.schedule.epochs if alike else None


def _network(cfg: DictConfig) -> tuple[str, ...]:
    return tuple(str(OmegaConf.select(cfg, key)) for key in NETWORK)


def lines(targets: Iterable[Target], library: Library) -> list[Line]:
    """Every row of every target, in the order of the targets."""
    costs, found = Costs(library), []
    for target in targets:
        found += [
            _line(target, row, experiment, published, library, costs)
            for (row, experiment), published in _rows(target).items()
        ]
        found += [_part(target, part, library) for part in target.parts]
    return found


def _rows(target: Target) -> dict[tuple[str, str], str]:
    """(label, experiment) -> what is in print."""
    if not target.published:
        return {(experiment, experiment): "a figure" for experiment in target.experiments}
    found: dict[tuple[str, str], list[str]] = {}
    for line in target.published:
        if line.experiment:
            value = [] if line.value is None else [f"{label(line.metric)} {number(line.value, line.metric)}"]
            found.setdefault((line.row, line.experiment), []).extend(value)
    return {key: "; ".join(values) or "nothing" for key, values in found.items()}


def _line(target: Target, row: str, experiment: str, published: str, library: Library, costs: Costs) -> Line:
    runs = {
        scale: dict(Counter(found["precision"] for found in library.runs(name)))
        for scale in SCALES
        if described(name := name_at(experiment, scale))
    }
    missing = {
        job.folder(): costs.of(job.experiment)
        for scale in library.scales
        for job in without_recorded(
            library.jobs(experiment, scale, seeds_of(target, experiment, library, scale)), library
        )
    }
    return Line(target.name, row, experiment, published, runs, missing)


def seeds_of(target: Target, experiment: str, library: Library, scale: str) -> int:
    """How many runs of an experiment a target takes."""
    return 1 if experiment in target.once else target.seeds(library.seeds, scale)


def by_cost(jobs: list[Job], library: Library) -> list[Job]:
    """The cheapest run first; those of which nothing is known last."""
    costs = Costs(library)
    known = {name: costs.of(name) for name in {job.experiment for job in jobs}}
    return sorted(jobs, key=lambda job: (known[job.experiment] is None, known[job.experiment] or 0.0))


def without_recorded(jobs: list[Job], library: Library) -> list[Job]:
    """The runs that are still needed: as many of an experiment as there are, whatever their seeds, neither as folders
    nor as records of the same precision."""
    left = []
    for name in dict.fromkeys(job.experiment for job in jobs):
        own = [job for job in jobs if job.experiment == name]
        wanted = {job.config().precision for job in own}
        there = {found["metrics"]["seed"] for found in library.runs(name) if found["precision"] in wanted}
        left += [job for job in own if job.seed not in there][: max(0, len(own) - len(there))]
    return left


# ---- rows whose runs are none of train.py


def _part(target: Target, part: Part, library: Library) -> Line:
    there = _counted(target, part, library)
    missing = {Path(target.name, part.row, str(i)): None for i in range(there, part.runs)}
    published = "a figure" if part.runs else "curves, which are computed"
    return Line(target.name, part.row, None, published, {"full": {"": there}} if part.runs else {}, missing)


def _counted(target: Target, part: Part, library: Library) -> int:
    """The fewest seeds of its rows in what has been made."""
    made = [read(place.parent / f"{target.name}.json") for place in library.places]
    return max((min((r.n for r in rows if r.row.startswith(part.row)), default=0) for rows in made), default=0)


def complete(target: Target, library: Library) -> bool:
    """Whether a figure without experiments has all of its runs."""
    return any(part.runs for part in target.parts) and all(
        _counted(target, part, library) >= part.runs for part in target.parts
    )


# ---- as text


def table(found: list[Line]) -> "Table":
    """A line for each row: n at each scale, hours behind what is missing."""
    rows = []
    for line in found:
        others = ", ".join(f"{counted(runs)} ({s})" for s, runs in line.runs.items() if runs and s not in COLUMNS)
        own = (counted(line.runs[scale]) if scale in line.runs else "-" for scale in COLUMNS)
        missing = str(len(line.missing))
        rows.append([line.target, line.row, line.published, *own, others or "-", missing, hours(line)])
    columns = ("target", "row", "published", *COLUMNS, "other scales", "missing", "hours")
    return terminal.table(dict.fromkeys(columns, "left"), rows)


def counted(runs: dict[str, int]) -> str:
    """Runs by precision: 5 bf16, 1 fp32."""
    return ", ".join(f"{count} {precision}".strip() for precision, count in runs.items()) or "0"


def summary(found: list[Line]) -> str:
    """What all of it takes, each run once, however many rows share it."""
    runs = {folder: seconds for line in found for folder, seconds in line.missing.items()}
    known = [seconds for seconds in runs.values() if seconds is not None]
    unknown = len(runs) - len(known)
    return f"missing: {sum(known) / 3600:.1f} hours, one run after the other" + (
        f", and {unknown} runs of unknown cost" * bool(unknown)
    )


def hours(line: Line) -> str:
    """Of what is missing of a row."""
    if not line.missing:
        return "0"
    known = [seconds for seconds in line.missing.values() if seconds is not None]
    return "?" if len(known) < len(line.missing) else f"{sum(known) / 3600:.1f}"
