"""Runs of train.py: a configuration -> data, network and trainer."""

from pathlib import Path

import torch
from omegaconf import DictConfig

from varnet.base import distributed
from varnet.errors import ConfigError
from varnet.runs import likelihoods
from varnet.runs.beginning import beginning
from varnet.runs.build import build_model, initialise_from, load_data
from varnet.runs.folder import TRAIN, TRAINED
from varnet.runs.identity import identity
from varnet.runs.life import Kind
from varnet.runs.schema import check
from varnet.train import checkpoint
from varnet.train.trainer import Trainer


def made(cfg: DictConfig, where: torch.device, folder: Path) -> Trainer:
    """The trainer of a run, which writes nothing before it trains."""
    if cfg.compile and distributed.active():
        raise ConfigError("is invalid for several processes of one run: leave it out", "compile", True)
    data = distributed.after_first(lambda: load_data(cfg))
    model = build_model(cfg, data)
    if (start := beginning(cfg)) and not distributed.from_first(lambda: checkpoint.exists(folder)):
        initialise_from(model, start)
    trainer = Trainer(cfg, model, data, where, folder, identity(cfg), likelihoods.fitted(cfg, data))
    distributed.part_ways(trainer.model, cfg.seed)
    return trainer


TRAINING = Kind("train", TRAIN, check, made, TRAINED)
