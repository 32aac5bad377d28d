"""Where the configurations are, and one of them composed from overrides as on the command line."""

import functools
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

import varnet
from varnet.base.invocation import command

PACKAGE = Path(varnet.__file__).resolve().parent
# Beside the package in a checkout, inside of it in a wheel.
CONFIGS = next(folder for folder in (PACKAGE / "configs", PACKAGE.parent / "configs") if folder.is_dir())
RL_CONFIGS = CONFIGS / "rl"
OmegaConf.register_new_resolver("command", command, replace=True)  # for the help that stands in train.yaml


def composed(*overrides: str, name: str = "train") -> DictConfig:
    return _composed(overrides, name).copy()


@functools.cache
def _composed(overrides: tuple[str, ...], name: str) -> DictConfig:
    """Once, as it takes longer than the rest of what a table asks of an experiment."""
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(str(RL_CONFIGS if name == "rl" else CONFIGS), version_base="1.3"):
        return compose(name, list(overrides))
