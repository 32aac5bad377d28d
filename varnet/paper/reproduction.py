"""What each table and figure needs, which of it is missing, and what is built from it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from omegaconf import OmegaConf

from varnet.errors import CheckpointError, ConfigError, DataError
from varnet.launch.queue import Job
from varnet.paper import fig7, figures
from varnet.paper.beyond import linear_models, reinforcement_learning
from varnet.paper.movie import emptying
from varnet.paper.published import TABLES, TITLES
from varnet.report import tables
from varnet.report.tables import name_at
from varnet.runs import folder as run
from varnet.runs import records
from varnet.runs.opening import Finished, open_finished

PRIORS = ("loguniform", "student", "ard")
TOY_SEEDS = 8  # at full scale, at least: the kinds of representation differ by seed


# How many seeds a target takes, from the number asked for and the scale.
def _as_asked(asked: int, _scale: str) -> int:
    return asked


def _one(_asked: int, _scale: str) -> int:
    return 1


def _toy_seeds(asked: int, scale: str) -> int:
    return asked if scale == "small" else max(asked, TOY_SEEDS)


def _members(asked: int, _scale: str) -> int:
    return max(asked, fig7.MEMBERS)


class Target(NamedTuple):
    """A table or a figure: its experiments, and for a figure what draws it from runs found by experiment."""

    experiments: tuple[str, ...]
    draw: Callable[["Library"], figures.Drawn | None] | None = None
    seeds: Callable[[int, str], int] = _as_asked
    once: tuple[str, ...] = ()  # experiments of which one run is enough
    from_history: bool = False  # curves are enough, as records have them; else it takes the run's folder


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
        self.data_dir = self.option("data_dir", None)

    def option(self, key: str, default: str | None) -> str | None:
        """The value of key=value among the overrides."""
        return dict(override.split("=", 1) for override in self.overrides).get(key, default)

    def jobs(self, experiment: str, scale: str | None = None, seeds: int | None = None) -> list[Job]:
        name = name_at(experiment, scale or self.scale)
        return [Job(name, seed, self.overrides) for seed in range(seeds or self.seeds)]

    def seeds_for(self, target: "Target") -> int:
        return target.seeds(self.seeds, self.scale)

    def finished(self, experiment: str, seeds: int | None = None, scale: str | None = None) -> list[Path]:
        folders = (job.folder() for job in self.jobs(experiment, scale, seeds))
        return [folder for folder in folders if run.finished(folder)]

    def all_finished(self, name: str) -> list[Path]:
        """Every finished run of an experiment, named with its scale, whatever number of seeds was asked for."""
        beside = Job(name, 0, self.overrides).folder().parent.glob("seed*")
        seeds = {metrics["seed"] for metrics in map(run.finished, beside) if metrics}
        own = (Job(name, seed, self.overrides).folder() for seed in sorted(seeds))
        return [folder for folder in own if run.finished(folder)]

    def runs(self, name: str) -> list[dict]:
        """Every run of an experiment, named with its scale: in its folder, else as recorded."""
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
        return [{"precision": found["precision"], **found["metrics"]} for found in self.runs(name)]

    def records(self, target: str) -> dict[str, dict]:
        """What a number needs beside it: configuration, metrics and curves of every run in a table, by file name."""
        names = [name_at(e, scale) for scale in tables.SCALES for e in TARGETS[target].experiments]
        found = [records.of_folder(folder) for name in names for folder in self.all_finished(name)]
        return {records.file_name(record): record for record in found}

    def histories(self, experiment: str) -> list[tuple[list[dict], dict]]:
        """(lines by epoch, metrics) of each run at this scale and precision."""
        name = name_at(experiment, self.scale)
        own = Job(name, 0, self.overrides).config().precision
        runs = [found for found in self.runs(name) if found["precision"] == own]
        lines = [records.history(found["folder"]) if "folder" in found else found["history"] for found in runs]
        return [(history, found["metrics"]) for history, found in zip(lines, runs, strict=True) if history]

    def opened(self, experiment: str, seeds: int | None = None) -> list[Finished]:
        return [open_finished(folder, self.data_dir) for folder in self.finished(experiment, seeds)]


def _phases(library: Library, priors: tuple[str, ...]) -> figures.Drawn:
    found = {prior: library.histories(f"phase_{prior}") for prior in priors}
    return figures.phase_transition({prior: runs for prior, runs in found.items() if runs})


TARGETS = {
    **{name: Target(tuple(dict.fromkeys(row.experiment for row in rows))) for name, rows in TABLES.items()},
    "fig1": Target(
        ("toy",), lambda lib: figures.toy_activations(lib.opened("toy", lib.seeds_for(TARGETS["fig1"]))), _toy_seeds
    ),
    "fig2": Target((), lambda _: figures.kl_divergences()),
    "fig3": Target(("phase_loguniform",), lambda lib: _phases(lib, ("loguniform",)), from_history=True),
    "fig4": Target(
        ("table2_mnist_variance",), lambda lib: figures.weight_samples(lib.opened("table2_mnist_variance", 1)[0]), _one
    ),
    "fig5": Target(("table1_zero_mean",), lambda lib: figures.pruning(lib.opened("table1_zero_mean", 1)[0]), _one),
    **{
        name: Target(
            tuple(fig7.NETWORKS[name].values()), lambda lib, name=name: fig7.draw(name, lib), _members, fig7.once(name)
        )
        for name in fig7.NETWORKS
    },
    "emptying": Target(("sparse_lenet300",), lambda lib: emptying(lib.opened("sparse_lenet300", 1)[0]), _one),
    "fig6": Target((), reinforcement_learning),
    "linear": Target((), linear_models),
    "fig8": Target(tuple(f"phase_{p}" for p in PRIORS), lambda lib: _phases(lib, PRIORS), from_history=True),
    "fig9": Target(
        ("table1_zero_mean",), lambda lib: figures.class_densities(lib.opened("table1_zero_mean", 1)[0]), _one
    ),
}
CAPTIONS = {
    "fig1": "Figure 1: activations of two variance neurons on the toy problem, by seed",
    "fig2": "Figure 2: KL divergence of the three priors",
    "fig3": "Figure 3: phase transition, VGG-like on CIFAR-10, log-uniform prior",
    "fig4": "Figure 4: accuracy of weight samples and of averages, LeNet-5 on MNIST, all layers variational",
    "fig5": "Figure 5: accuracy against the fraction of sigmas removed, LeNet-5 on MNIST",
    "emptying": "Sparse variational dropout: the first layer of LeNet-300-100 empties",
    "fig6": "Figure 6: evaluation score by episode, three policies",
    "linear": "Linear models: log alpha of relevant and irrelevant features",
    "fig7": "Figure 7: successful targeted attacks by iteration, VGG-like on CIFAR-10",
    "fig7_mnist": "Figure 7 on MNIST: successful targeted attacks by iteration, LeNet-5",
    "fig8": "Figure 8: phase transition for each prior, VGG-like on CIFAR-10",
    "fig9": "Figure 9: densities of activations of a variance layer by class, LeNet-5 on MNIST",
}


def title(name: str) -> str:
    return TITLES.get(name) or CAPTIONS[name]


def jobs_of(names: list[str], library: Library) -> list[Job]:
    """Every run that the targets need, each once (two rows may share a run)."""
    found: dict[Path, Job] = {}
    for name in names:
        target = TARGETS[name]
        for experiment in target.experiments:
            for job in library.jobs(experiment, seeds=1 if experiment in target.once else library.seeds_for(target)):
                found.setdefault(job.folder(), job)
    return list(found.values())


def build(names: list[str], library: Library) -> Iterator[tuple[str, object]]:
    """(name, rows) of a table, (name, (figure, numbers)) of a figure; what has no finished run is left out."""
    for name in names:
        target = TARGETS[name]
        if target.draw is None:
            if rows := tables.rows_of(name, library.metrics):
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
