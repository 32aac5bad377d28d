"""New runs into the published results: what reproduce.py wrote into a folder is taken into docs/results.

Records of runs add up, and a table is built anew from all of them; a figure is taken as it was drawn. Nothing is taken
if a part of it cannot be traced to a commit.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from varnet.base.files import write_atomically
from varnet.errors import ConfigError
from varnet.launch.queue import Job
from varnet.paper.library import Library, described
from varnet.paper.targets import Target
from varnet.report.row import Row, as_json, read
from varnet.report.tables import SCALES, name_at, rows_of
from varnet.runs import records

ENDINGS = (".json", ".png", ".svg", ".gif", ".numbers.json")  # of a figure's files


class Recorded(Library):
    """Runs as their records have them, whatever run folders there are."""

    def __init__(self, folder: Path):
        super().__init__(1, "full", may_run=False, recorded=folder)

    def folders(self, name: str) -> list[tuple[str, Path]]:
        return []

    def of(self, target: Target) -> list[dict]:
        """The records of a target's runs, at every scale and precision."""
        names = [name_at(experiment, scale) for experiment in target.every for scale in SCALES]
        kinds = [records.kind(Job(name, 0).config()) for name in names if described(name)]
        return [record for kind, record in self.recorded if kind in kinds]


def take(names: Iterable[str], targets: dict[str, Target], source: Path, results: Path) -> list[str]:
    """Take those of the named targets of which the source has a table or a figure; their names."""
    wanted = [targets[name] for name in names if _there(source, name)]
    if not wanted:
        raise ConfigError("holds none of these tables and figures: run reproduce.py first", "from", source)
    library = Recorded(source / "runs")
    runs = {target.name: library.of(target) for target in wanted}
    for target in wanted:
        _check(target, runs[target.name], source)
    (results / "runs").mkdir(parents=True, exist_ok=True)
    taken = {records.file_name(record): record for found in runs.values() for record in found}
    for file, record in taken.items():
        write_atomically(results / "runs" / file, records.as_json(record))
    known = Recorded(results / "runs")
    for target in [*wanted, *_sharing(taken, known, targets, results)]:
        _write(target, source, results, known)
    return [target.name for target in wanted]


def _sharing(taken: Iterable[str], known: Recorded, targets: dict[str, Target], results: Path) -> list[Target]:
    """The tables that are there already and count one of these runs: two tables may share a run."""
    there = [each for each in targets.values() if each.draw is None and (results / f"{each.name}.json").is_file()]
    new = set(taken)
    return [each for each in there if new & {records.file_name(record) for record in known.of(each)}]


def _there(source: Path, name: str) -> bool:
    return any((source / f"{name}{ending}").is_file() for ending in ENDINGS)


def _write(target: Target, source: Path, results: Path, known: Recorded) -> None:
    if target.draw is None:
        write_atomically(results / f"{target.name}.json", as_json(table(target, known)))
        return
    for path in (source / f"{target.name}{ending}" for ending in ENDINGS):
        if path.is_file():
            write_atomically(results / path.name, path.read_bytes())


def rebuild(targets: dict[str, Target], results: Path) -> None:
    """Every table that is there, from the records beside it."""
    known = Recorded(results / "runs")
    for target in targets.values():
        if target.draw is None and (results / f"{target.name}.json").is_file():
            write_atomically(results / f"{target.name}.json", as_json(table(target, known)))


def table(target: Target, known: Recorded) -> list[Row]:
    """The rows of a table from records alone."""
    return rows_of(target.published, known.metrics)


# ---- what cannot be traced


def _check(target: Target, runs: list[dict], source: Path) -> None:
    if target.experiments and not runs:
        raise ConfigError(f"{source / 'runs'} has no record of a run of {target.name}: make {target.name} again")
    for name, commit in [*_of_records(runs), *_of_rows(target, source)]:
        if not clean(commit):
            told = f"is of commit {commit}" if commit else "tells no commit"
            raise ConfigError(f"{name} {told}: commit your changes and run it again, as a result needs a clean commit")


def _of_records(runs: list[dict]) -> Iterator[tuple[str, str | None]]:
    for record in runs:
        yield f"the record {records.file_name(record)}", record["metrics"].get("commit")


def _of_rows(target: Target, source: Path) -> Iterator[tuple[str, str | None]]:
    """Rows beside a figure may come from elsewhere than from runs that have records."""
    for row in read(source / f"{target.name}.json") if target.draw else []:
        yield f'the row "{row.row}" of {target.name}.json', row.commit
        if "attack_commit" in row.more:
            yield f'the attack on "{row.row}" of {target.name}.json', str(row.more["attack_commit"])


def clean(commit: str | None) -> bool:
    """Whether these commits, parted by commas, can be checked out again."""
    return bool(commit) and not any(each == "None" or each.endswith("-dirty") for each in str(commit).split(", "))
