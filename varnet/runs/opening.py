"""A finished run, opened to be looked at."""

from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig
from torch import nn

from varnet.base.invocation import command
from varnet.data import Dataset
from varnet.errors import CheckpointError, ConfigError
from varnet.nn.likelihoods import CATEGORICAL, Likelihood
from varnet.runs import likelihoods, shelf
from varnet.runs.build import build_model, load_data
from varnet.runs.folder import Targets, finished, saved_config
from varnet.runs.identity import identity
from varnet.runs.resuming import check_fits
from varnet.runs.schema import check
from varnet.train import checkpoint


class Finished(NamedTuple):
    """A run that has ended, to look at."""

    folder: Path
    cfg: DictConfig
    metrics: dict
    data: Dataset
    model: nn.Module
    members: tuple[str, ...] = ()  # of an ensemble: where they are
    likelihood: Likelihood = CATEGORICAL  # in the units of the training targets


def open_finished(folder: Path, data_dir: str | None = None, targets: Targets | None = None) -> Finished:
    """Nothing is written. A run that has not ended, or that this version cannot rebuild, is refused.

    folder: of a run, or a stored network by its name (runs/shelf.py).
    targets: the import paths of a user's own network and data, by the keys model.target and dataset.target.
    """
    if (there := shelf.stored_at(folder)) is not None:
        return Finished(*shelf.opened(there, data_dir))
    if not folder.exists() and len(folder.parts) == 1:
        known = ", ".join(shelf.names()) or "none is here"
        raise ConfigError(f"{folder} is not a folder: name the folder of a run, or a stored network ({known})")
    cfg = saved_config(folder, None, targets=targets)
    if (metrics := finished(folder)) is None:
        raise ConfigError(f"{folder} has not ended: finish it with {command('train')} resume={folder}")
    stranger = f"{folder} was made by another version of varnet (commit {metrics.get('commit')}): use that version"
    try:
        check(cfg)
    except ConfigError as error:
        raise ConfigError(f"{stranger}; {error}") from error
    if data_dir is not None:
        cfg.data_dir = data_dir
    state = checkpoint.load(folder)
    check_fits(identity(cfg), state["config"], folder)
    data = load_data(cfg)
    model = build_model(cfg, data)
    try:
        model.load_state_dict(state["model"])
    except RuntimeError as error:
        if isinstance(error, CheckpointError):
            raise
        raise ConfigError(f"{stranger}; its checkpoint does not fit the model of its configuration") from error
    return Finished(folder, cfg, metrics, data, model, likelihood=likelihoods.fitted(cfg, data))


def check_classes(run: Finished, command: str) -> None:
    """Refuse a run whose targets are no classes, for what is about classes alone."""
    if not run.likelihood.classes:
        raise ConfigError(f"{run.folder} has likelihood={run.likelihood.name}, and is not for {command}")


def open_run(path: str | Path, data_dir: str | None = None, targets: Targets | None = None) -> Finished:
    """A finished run by its folder, or a stored network by its name: the model in evaluation mode on the CPU, its data,
    configuration and metrics.

    data_dir   folder of the datasets; None: the run's own where they lie there already, else VARNET_DATA or `data`
    targets    of a run of model=custom or dataset=custom its import paths, given again: {"model.target": "mine:build"}
    """
    found = open_finished(Path(path), data_dir, targets)
    found.model.eval()
    return found
