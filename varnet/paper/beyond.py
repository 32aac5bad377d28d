"""Targets of reproduce.py that are no runs of train.py: reinforcement learning (Figure 6) and linear models."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from varnet.paper.figures import Drawn
    from varnet.paper.reproduction import Library

SEEDS = 9  # of Figure 6
LINEAR_SEEDS = 5
SWEEP = ["env=cartpole,acrobot", "policy=variance,deterministic,parameter_noise"]


def reinforcement_learning(library: "Library") -> "Drawn | None":
    """Figure 6 from its runs in OUT_DIR/rl, after the sweep of what is missing; the whole takes an hour of CPU time.
    Both scales are the same."""
    from varnet.paper import fig6 as report
    from varnet.rl.grid import grid
    from varnet.rl.run import finished
    from varnet.rl.sweep import sweep
    from varnet.runs.folder import folder_of

    passed = [o for o in library.overrides if o.partition("=")[0] in ("device", "threads", "checkpoint_every")]
    folder = Path(library.option("out_dir", "outputs")) / "rl"
    overrides = [*SWEEP, f"seed=range({max(SEEDS, library.seeds)})", f"out_dir={quoted(str(folder))}", *passed]
    configs = grid(overrides)
    if library.may_run:
        _, failed = sweep(configs, library.at_once)
        if failed:
            library.failures["fig6"] = f"{failed[0]}; the same command goes on"
    folders = [place for place in map(folder_of, configs) if finished(place)]
    return (report.figure(folders), {"rows": report.results(folders)}) if folders else None


def quoted(value: str) -> str:
    """For Hydra, which takes a comma for the end of a choice of a sweep."""
    return "'" + value.replace("'", "\\'") + "'"


def linear_models(library: "Library") -> "Drawn | None":
    """The slides' experiments, in minutes."""
    from varnet.linear import experiment

    if not library.may_run:
        return None
    return experiment.figure(), {"rows": experiment.results(max(library.seeds, LINEAR_SEEDS))}
