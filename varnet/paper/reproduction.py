"""Which runs the tables and figures need, and what is built of those that are there."""

from collections.abc import Iterator
from pathlib import Path

from varnet.errors import CheckpointError, ConfigError, DataError
from varnet.launch.queue import Job
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, Target, found
from varnet.report.row import Row
from varnet.report.tables import rows_of

TARGETS = found()


def jobs_of(names: list[str], library: Library) -> list[Job]:
    """Every run that the targets need, each once (two rows may share a run)."""
    wanted: dict[Path, Job] = {}
    for target in (TARGETS[name] for name in names):
        for experiment in target.experiments:
            for job in library.jobs(experiment, seeds=1 if experiment in target.once else library.seeds_for(target)):
                wanted.setdefault(job.folder(), job)
    return list(wanted.values())


def build(names: list[str], library: Library) -> Iterator[tuple[str, list[Row] | Drawn]]:
    """(name, rows of a table or a drawn figure); what has no finished run is left out."""
    for name in names:
        target = TARGETS[name]
        if target.draw is None:
            if rows := rows_of(target.published, library.metrics):
                yield name, rows
        elif all(_there(library, target, experiment) for experiment in target.experiments):
            try:
                drawn = target.draw(library)
            except (ConfigError, CheckpointError, DataError) as error:
                library.failures[name] = str(error)
                continue
            if drawn is not None:
                yield name, drawn


def _there(library: Library, target: Target, experiment: str) -> bool:
    if target.from_history:
        return bool(library.histories(experiment))
    return bool(library.finished(experiment, library.seeds_for(target)))
