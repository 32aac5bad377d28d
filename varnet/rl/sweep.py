"""Many runs of scripts/rl.py, each in a process of its own."""

from pathlib import Path

from omegaconf import DictConfig

from varnet.launch.pool import Outcome, run_all
from varnet.rl.run import run
from varnet.runs.folder import folder_of


def sweep(configs: list[DictConfig], jobs: int | None = None) -> tuple[list[Path], list[str]]:
    """(folders of the finished runs, a sentence for every run that failed, which does not stop the others)."""
    names = [f"{cfg.name} seed {cfg.seed}" for cfg in configs]

    def done(index: int, outcome: Outcome) -> None:
        failed = outcome.error if outcome.stopped else f"failed: {outcome.error}"
        text = failed if outcome.error else f"score {outcome.result['score']:.1f}"
        print(f"{names[index]}: {text}", flush=True)

    outcomes = run_all(run, configs, jobs, done)
    folders = [folder_of(cfg) for cfg, outcome in zip(configs, outcomes, strict=True) if not outcome.error]
    failed = [f"{name}: {outcome.error}" for name, outcome in zip(names, outcomes, strict=True) if outcome.error]
    return folders, failed
