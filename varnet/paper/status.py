"""What there is of every row, what is missing at full scale, and what that costs by the times of earlier runs."""

import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from omegaconf import DictConfig, OmegaConf

from varnet.launch.queue import Job
from varnet.paper.library import Library, described
from varnet.paper.targets import Target
from varnet.report.tables import SCALES, label, name_at, number

if TYPE_CHECKING:
    from rich.table import Table

NETWORK = ("dataset.name", "model.name", "model.width", "param.name", "param.layers", "param.noise")  # costs alike


class Line(NamedTuple):
    """One row of a target, or one experiment of a figure."""

    target: str
    row: str
    experiment: str
    published: str
    runs: dict[str, int]  # scale -> finished runs, of the scales that the experiment has
    precision: str
    missing: int  # runs at full scale, up to the number of seeds that was asked for
    seconds: float | None  # that one of them takes; None: no run tells


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


def lines(targets: Iterable[Target], library: Library, seeds: int) -> list[Line]:
    """Every row of every target, in the order of the targets."""
    costs = Costs(library)
    return [
        _line(target, row, experiment, published, library, costs, seeds)
        for target in targets
        for (row, experiment), published in _rows(target).items()
    ]


def _rows(target: Target) -> dict[tuple[str, str], str]:
    """(label, experiment) -> what is in print."""
    if not target.published:
        return {(experiment, experiment): "a figure" for experiment in target.experiments}
    found: dict[tuple[str, str], list[str]] = {}
    for line in target.published:
        value = [] if line.value is None else [f"{label(line.metric)} {number(line.value, line.metric)}"]
        found.setdefault((line.row, line.experiment), []).extend(value)
    return {key: "; ".join(values) or "nothing" for key, values in found.items()}


def _line(
    target: Target, row: str, experiment: str, published: str, library: Library, costs: Costs, seeds: int
) -> Line:
    runs = {scale: library.runs(name) for scale in SCALES if described(name := name_at(experiment, scale))}
    precision = ", ".join(sorted({found["precision"] for found in runs["full"]}))
    wanted = 1 if experiment in target.once else target.seeds(seeds, "full")
    missing = max(0, wanted - len({found["metrics"]["seed"] for found in runs["full"]}))
    counts = {scale: len(found) for scale, found in runs.items()}
    return Line(target.name, row, experiment, published, counts, precision, missing, costs.of(experiment))


def by_cost(jobs: list[Job], library: Library) -> list[Job]:
    """The cheapest run first; those of which nothing is known last."""
    costs = Costs(library)
    known = {name: costs.of(name) for name in {job.experiment for job in jobs}}
    return sorted(jobs, key=lambda job: (known[job.experiment] is None, known[job.experiment] or 0.0))


def without_recorded(jobs: list[Job], library: Library) -> list[Job]:
    """The runs of which there is neither a folder nor a record of the same precision."""
    there: dict[str, set[tuple[str, int]]] = {}
    for name in {job.experiment for job in jobs}:
        there[name] = {(found["precision"], found["metrics"]["seed"]) for found in library.runs(name)}
    return [job for job in jobs if (job.config().precision, job.seed) not in there[job.experiment]]


# ---- as text


def table(found: list[Line]) -> "Table":
    """A line for each row, hours behind what is missing."""
    from rich.table import Table

    chart = Table("target", "row", "published", "runs", "missing", "hours", title="Rows at full scale and others")
    for line in found:
        runs = ", ".join(f"{count} {scale}" for scale, count in line.runs.items() if count) or "none"
        runs += f" ({line.precision})" if line.precision else ""
        chart.add_row(line.target, line.row, line.published, runs, str(line.missing), hours(line))
    return chart


def summary(found: list[Line]) -> str:
    """What all of it takes, each experiment once, however many rows share its runs."""
    once = {line.experiment: line for line in sorted(found, key=lambda line: line.missing)}.values()
    known = sum(line.missing * line.seconds for line in once if line.seconds is not None) / 3600
    unknown = sum(line.missing for line in once if line.seconds is None)
    return f"missing: {known:.1f} hours, one run after the other" + (
        f", and {unknown} runs of unknown cost" * bool(unknown)
    )


def hours(line: Line) -> str:
    """Of what is missing of a row."""
    if not line.missing:
        return "0"
    return "?" if line.seconds is None else f"{line.missing * line.seconds / 3600:.1f}"
