"""Finished runs by experiment: in their folders or, where those are gone, as records."""

from collections.abc import Iterable
from pathlib import Path

from omegaconf import OmegaConf

from varnet.launch.queue import Job
from varnet.paper.targets import Target
from varnet.report.tables import SCALES, name_at
from varnet.runs import folder as run
from varnet.runs import past, records
from varnet.runs.composing import CONFIGS
from varnet.runs.opening import Finished, open_finished


def described(name: str) -> bool:
    """Whether there is an experiment of that name; not every one has each scale."""
    return (CONFIGS / "experiment" / f"{name}.yaml").is_file()


class Library:
    """Finished runs by experiment and seed, in their folders or, where those are gone, as records in `recorded`."""

    def __init__(
        self, seeds: int, scale: str, overrides: tuple[str, ...] = (), may_run: bool = True,
        recorded: Path | None = None, at_once: int = 1,
    ):  # fmt: skip
        self.seeds, self.scale, self.overrides, self.may_run = seeds, scale, overrides, may_run
        self.at_once = at_once  # runs of a sweep that is not one of train.py
        self.failures: dict[str, str] = {}  # target -> what went wrong while it was made
        self.out = recorded.parent if recorded else None  # of what is made of the runs
        known = records.read(recorded) if recorded else []
        self.recorded = [(records.kind(OmegaConf.create(record["config"])), record) for record in known]
        self.data_dir = self.option("data_dir")

    def option(self, key: str) -> str | None:
        """The value of key=value among the overrides."""
        return dict(override.split("=", 1) for override in self.overrides).get(key)

    def unfinished(self, name: str) -> Path | None:
        """The file of what there is of a target that takes long, until it is written."""
        return self.out and self.out / f"{name}.part.json"

    # ---- what is to be run

    def jobs(self, experiment: str, scale: str | None = None, seeds: int | None = None) -> list[Job]:
        """The runs of an experiment, seeds 0, 1, ..."""
        name = name_at(experiment, scale or self.scale)
        return [Job(name, seed, self.overrides) for seed in range(seeds or self.seeds) if described(name)]

    def seeds_for(self, target: Target) -> int:
        return target.seeds(self.seeds, self.scale)

    # ---- what there is

    def finished(self, experiment: str, seeds: int | None = None, scale: str | None = None) -> list[Path]:
        """The folders of the seeds that were asked for, where they are finished."""
        folders = (job.folder() for job in self.jobs(experiment, scale, seeds))
        return [folder for folder in folders if run.finished(folder)]

    def all_finished(self, name: str) -> list[Path]:
        """Every finished run of an experiment, named with its scale, whatever number of seeds was asked for."""
        if not described(name):
            return []
        beside = Job(name, 0, self.overrides).folder().parent.glob("seed*")
        seeds = {metrics["seed"] for metrics in map(run.finished, beside) if metrics}
        own = (Job(name, seed, self.overrides).folder() for seed in sorted(seeds))
        return [folder for folder in own if run.finished(folder)]

    def runs(self, name: str) -> list[dict]:
        """Every run of an experiment, named with its scale: in its folder, else as recorded."""
        if not described(name):
            return []
        config = Job(name, 0, self.overrides).config()
        found = {
            (config.precision, metrics["seed"]): {"metrics": metrics, "folder": folder}
            for folder in self.all_finished(name)
            if (metrics := run.finished(folder))
        }
        wanted = records.kind(config)
        for record in [record for kind, record in self.recorded if kind == wanted]:
            found.setdefault((record["config"]["precision"], record["metrics"]["seed"]), record)
        return [{"precision": precision, **record} for (precision, _seed), record in sorted(found.items(), key=str)]

    def metrics(self, name: str) -> list[dict]:
        """The metrics of every run of an experiment, with its precision."""
        return [{"precision": found["precision"], **found["metrics"]} for found in self.runs(name)]

    def records(self, experiments: Iterable[str]) -> dict[str, dict]:
        """The configuration, metrics and curves of every run of the experiments, by file name: what a number needs
        beside it."""
        names = [name_at(experiment, scale) for scale in SCALES for experiment in experiments]
        found = [records.of_folder(folder) for name in names for folder in self.all_finished(name)]
        return {records.file_name(record): record for record in found}

    def histories(self, experiment: str) -> list[tuple[list[dict], dict]]:
        """(lines by epoch, metrics) of each run at this scale and precision."""
        name = name_at(experiment, self.scale)
        own = Job(name, 0, self.overrides).config().precision
        runs = [found for found in self.runs(name) if found["precision"] == own]
        lines = [past.history(found["folder"]) if "folder" in found else found["history"] for found in runs]
        return [(history, found["metrics"]) for history, found in zip(lines, runs, strict=True) if history]

    def opened(self, experiment: str, seeds: int | None = None) -> list[Finished]:
        """Data and network of every finished run at this scale."""
        return [open_finished(folder, self.data_dir) for folder in self.finished(experiment, seeds)]

    def first(self, experiment: str) -> Finished:
        """The run of the first seed."""
        return self.opened(experiment, 1)[0]
