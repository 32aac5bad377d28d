"""The weights that a run begins with: its own, or those of a run that went before."""

from pathlib import Path

from omegaconf import DictConfig

from varnet.base.invocation import command
from varnet.errors import ConfigError
from varnet.runs.composing import CONFIGS, composed
from varnet.runs.folder import finished, folder_of

SHARED = ("seed", "precision", "out_dir")  # of a run and the one that it goes on from


def beginning(cfg: DictConfig) -> Path | None:
    """The folder or checkpoint of the weights to start from; None: random ones."""
    if cfg.init_from:
        return Path(cfg.init_from)
    if (before := original(cfg)) is None:
        return None
    folder, name = folder_of(before), cfg.init_experiment
    if not finished(folder):
        options = " ".join(f"{key}={before[key]}" for key in SHARED)
        raise ConfigError(
            f"has no finished run in {folder}: train it first, with {command('train')} experiment={name} {options}",
            "init_experiment", name,
        )  # fmt: skip
    return folder


def original(cfg: DictConfig) -> DictConfig | None:
    """The configuration of the run that this one goes on from, if it names an experiment."""
    name = cfg.get("init_experiment")
    if name is None:
        return None
    if not (CONFIGS / "experiment" / f"{name}.yaml").is_file():
        raise ConfigError("is not known: name a file of configs/experiment", "init_experiment", name)
    before = composed(f"experiment={name}")
    for key in SHARED:
        before[key] = cfg[key]
    return before
