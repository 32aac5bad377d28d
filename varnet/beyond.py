"""Targets of reproduce.py that are no runs of train.py: reinforcement learning (Figure 6) and linear models."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from varnet.figures import Drawn
    from varnet.reproduction import Library

ROOT = Path(__file__).resolve().parent.parent
SEEDS = 9  # of Figure 6
LINEAR_SEEDS = 5
SWEEP = ["env=cartpole,acrobot", "policy=variance,deterministic,parameter_noise"]


def reinforcement_learning(library: "Library") -> "Drawn | None":
    """Figure 6 from its runs in OUT_DIR/rl, after the sweep of what is missing; the whole takes an hour of CPU time.
    Both scales are the same."""
    from varnet.rl import report
    from varnet.rl.grid import grid
    from varnet.rl.run import finished
    from varnet.run import folder_of

    passed = [o for o in library.overrides if o.partition("=")[0] in ("device", "threads", "checkpoint_every")]
    folder = Path(library.option("out_dir", "outputs")) / "rl"
    overrides = [*SWEEP, f"seed=range({max(SEEDS, library.seeds)})", f"out_dir={quoted(str(folder))}", *passed]
    if library.may_run and (code := _sweep([*overrides, f"jobs={library.at_once}"])):
        library.failures["fig6"] = f"scripts/rl.py ended with exit code {code}; the same command goes on"
    folders = [place for place in map(folder_of, grid(overrides)) if finished(place)]
    return (report.figure(folders), {"rows": report.results(folders)}) if folders else None


def quoted(value: str) -> str:
    """For Hydra, which takes a comma for the end of a choice of a sweep."""
    return "'" + value.replace("'", "\\'") + "'"


def _sweep(overrides: list[str]) -> int:
    """The exit code of scripts/rl.py. Ctrl-C makes its runs save and end."""
    process = subprocess.Popen([sys.executable, str(ROOT / "scripts" / "rl.py"), "-m", *overrides])
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise


def linear_models(library: "Library") -> "Drawn | None":
    """The slides' experiments, in minutes."""
    from varnet.linear import experiment

    if not library.may_run:
        return None
    return experiment.figure(), {"rows": experiment.results(max(library.seeds, LINEAR_SEEDS))}
