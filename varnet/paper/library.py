"""Finished runs by experiment: in their folders or, where those are gone, as records."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from omegaconf import OmegaConf

from varnet.base.device import has_bfloat16
from varnet.launch.queue import Job
from varnet.paper.targets import Target
from varnet.report.pooling import PRECISIONS
from varnet.report.tables import SCALES, name_at
from varnet.runs import folder as run
from varnet.runs import past, records
from varnet.runs.composing import CONFIGS
from varnet.runs.folder import folder_of
from varnet.runs.opening import Finished, open_finished

NETWORK = ("dataset.name", "model.name", "model.width")  # what precisions are compared of


AUTO = "precision=auto"


def described(name: str) -> bool:
    """Whether there is an experiment of that name; not every one has each scale."""
    return (CONFIGS / "experiment" / f"{name}.yaml").is_file()


class Library:
    """Finished runs by experiment and seed, in their folders or, where those are gone, as records.

    scale      one, or several with commas between them: of these runs, and of figures the first that can be drawn
    overrides  for train.py; precision=auto takes for each experiment that of its runs (see `precision`)
    recorded   the folder of records; what is made of the runs stands beside it
    beside     more folders of records
    """

    def __init__(
        self, seeds: int, scale: str, overrides: tuple[str, ...] = (), may_run: bool = True,
        recorded: Path | None = None, at_once: int = 1, beside: Iterable[Path] = (),
    ):  # fmt: skip
        self.scales = tuple(scale.split(","))
        self.seeds, self.scale, self.may_run = seeds, self.scales[0], may_run
        self.auto = AUTO in overrides
        self.overrides = tuple(override for override in overrides if override != AUTO)
        self.at_once = at_once  # runs of a sweep that is not one of train.py
        self.failures: dict[str, str] = {}  # target -> what went wrong while it was made
        self.out = recorded.parent if recorded else None  # of what is made of the runs
        self.places = [*([recorded] if recorded else []), *beside]
        known = [record for place in self.places for record in records.read(place)]
        self.recorded = [(records.kind(OmegaConf.create(record["config"])), record) for record in known]
        self.data_dir = self.option("data_dir")
        self.precisions: dict[str, str] = {}

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
        return [self.job(name, seed) for seed in range(seeds or self.seeds) if described(name)]

    def job(self, name: str, seed: int = 0) -> Job:
        """One run of an experiment, named with its scale."""
        return Job(name, seed, self.overrides, self.precision(name) if self.auto else None)

    def precision(self, name: str) -> str:
        """That of most of its runs, so that rows are finished as they were begun, and bf16 if there are none; on a
        machine without bfloat16 instructions fp32."""
        if name not in self.precisions:
            count = Counter(found["precision"] for found in self.runs(name))
            best = max(count, key=lambda precision: (count[precision], precision == "bf16"), default="bf16")
            self.precisions[name] = best if has_bfloat16() else "fp32"
        return self.precisions[name]

    def seeds_for(self, target: Target) -> int:
        return target.seeds(self.seeds, self.scale)

    # ---- what there is

    def finished(self, experiment: str, seeds: int | None = None, scale: str | None = None) -> list[Path]:
        """The folders of the seeds that were asked for, where they are finished."""
        folders = (job.folder() for job in self.jobs(experiment, scale, seeds))
        return [folder for folder in folders if run.finished(folder)]

    def all_finished(self, name: str) -> list[Path]:
        """Every finished run of an experiment, named with its scale, whatever number of seeds was asked for."""
        return [folder for _precision, folder in self.folders(name)]

    def folders(self, name: str) -> list[tuple[str, Path]]:
        """The same with the precision of each: of every one, unless one was asked for."""
        if not described(name):
            return []
        config = Job(name, 0, self.overrides).config()
        beside = map(run.finished, folder_of(config).parent.glob("seed*"))  # maybe of other configurations
        seeds = sorted({metrics["seed"] for metrics in beside if metrics})
        found = []
        for precision in (config.precision,) if self.option("precision") else PRECISIONS:
            config.precision = precision
            for seed in seeds:
                config.seed = seed
                found.append((precision, folder_of(config)))
        return [(precision, folder) for precision, folder in found if run.finished(folder)]

    def runs(self, name: str) -> list[dict]:
        """Every run of an experiment, named with its scale: in its folder, else as recorded."""
        if not described(name):
            return []
        config = Job(name, 0, self.overrides).config()
        about = {
            "network": ", ".join(str(OmegaConf.select(config, key)) for key in NETWORK),
            "elbo_samples": config.eval.elbo_samples,
        }
        found = {
            (precision, metrics["seed"]): {"metrics": metrics, "folder": folder}
            for precision, folder in self.folders(name)
            if (metrics := run.finished(folder))
        }
        wanted = records.kind(config)
        for record in [record for kind, record in self.recorded if kind == wanted]:
            found.setdefault((record["config"]["precision"], record["metrics"]["seed"]), record)
        return [
            {"precision": precision, **about, **record} for (precision, _seed), record in sorted(found.items(), key=str)
        ]

    def metrics(self, name: str) -> list[dict]:
        """The metrics of every run of an experiment, with its precision."""
        about = ("precision", "network", "elbo_samples")
        return [{key: found[key] for key in about} | found["metrics"] for found in self.runs(name)]

    def records(self, experiments: Iterable[str]) -> dict[str, dict]:
        """The configuration, metrics and curves of every run of the experiments, by file name: what a number needs
        beside it."""
        names = [name_at(experiment, scale) for scale in SCALES for experiment in experiments]
        found = [records.of_folder(folder) for name in names for folder in self.all_finished(name)]
        return {records.file_name(record): record for record in found}

    def histories(self, experiment: str) -> list[tuple[list[dict], dict]]:
        """(lines by epoch, metrics) of each run at this scale and precision."""
        name = name_at(experiment, self.scale)
        own = self.job(name).config().precision
        runs = [found for found in self.runs(name) if found["precision"] == own]
        lines = [past.history(found["folder"]) if "folder" in found else found["history"] for found in runs]
        return [(history, found["metrics"]) for history, found in zip(lines, runs, strict=True) if history]

    def opened(self, experiment: str, seeds: int | None = None) -> list[Finished]:
        """Data and network of every finished run at this scale."""
        return [open_finished(folder, self.data_dir) for folder in self.finished(experiment, seeds)]

    def first(self, experiment: str) -> Finished:
        """The run of the first seed."""
        return self.opened(experiment, 1)[0]
