"""Which runs the tables and figures need, and what is built of those that are there."""

from collections.abc import Iterator
from pathlib import Path

from varnet.errors import CheckpointError, ConfigError, DataError
from varnet.launch.queue import Job
from varnet.paper.library import Library
from varnet.paper.status import seeds_of
from varnet.paper.targets import Drawn, Target, found
from varnet.report.row import Row
from varnet.report.tables import rows_of

TARGETS = found()


def jobs_of(names: list[str], library: Library) -> list[Job]:
    """Every run that the targets need at the library's scales, each once (two rows may share a run)."""
    wanted: dict[Path, Job] = {}
    for scale in library.scales:
        for target in (TARGETS[name] for name in names):
            for experiment in target.experiments:
                for job in library.jobs(experiment, scale, seeds_of(target, experiment, library, scale)):
                    wanted.setdefault(job.folder(), job)
    return list(wanted.values())


def build(names: list[str], library: Library) -> Iterator[tuple[str, list[Row] | Drawn]]:
    """(name, rows of a table or a drawn figure); what has no finished run is left out."""
    for name in names:
        target = TARGETS[name]
        if target.draw is None:
            if rows := rows_of(target.published, library.metrics):
                yield name, rows
        elif (drawn := _drawn(target, library)) is not None:
            yield name, drawn


def _drawn(target: Target, library: Library) -> Drawn | None:
    """The figure at the first of the scales that has its runs."""
    for scale in library.scales:
        library.scale = scale
        if all(_there(library, target, experiment) for experiment in target.experiments):
            try:
                return target.draw(library)
            except (ConfigError, CheckpointError, DataError) as error:
                library.failures[target.name] = str(error)
                return None
    return None


def _there(library: Library, target: Target, experiment: str) -> bool:
    if target.from_history:
        return bool(library.histories(experiment))
    return bool(library.finished(experiment, library.seeds_for(target)))
