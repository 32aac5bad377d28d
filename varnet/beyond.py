"""Targets of reproduce.py that are no runs of train.py: reinforcement learning (Figure 6) and linear models."""

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
SWEEP = ("-m", "env=cartpole,acrobot", "policy=variance,deterministic,parameter_noise", f"seed=range({SEEDS})")


def reinforcement_learning(library: "Library") -> "Drawn | None":
    """Figure 6 from the runs in OUT_DIR/rl, after the sweep of what is missing; the whole takes an hour of CPU time."""
    from varnet.rl import report

    folder = Path(library.option("out_dir", "outputs")) / "rl"
    if library.may_run:
        subprocess.run([sys.executable, str(ROOT / "scripts" / "rl.py"), *SWEEP, f"out_dir={folder}"], check=False)
    folders = report.find(folder) if folder.is_dir() else []
    return (report.figure(folders), {"rows": report.results(folders)}) if folders else None


def linear_models(library: "Library") -> "Drawn | None":
    """The slides' experiments, in minutes."""
    from varnet.linear import experiment

    if not library.may_run:
        return None
    return experiment.figure(), {"rows": experiment.results(max(library.seeds, LINEAR_SEEDS))}
