"""Where the configurations are, and one of them composed from overrides as on the command line."""

from pathlib import Path

from omegaconf import DictConfig

import varnet

PACKAGE = Path(varnet.__file__).resolve().parent
# Beside the package in a checkout, inside of it in a wheel.
CONFIGS = next(folder for folder in (PACKAGE / "configs", PACKAGE.parent / "configs") if folder.is_dir())
RL_CONFIGS = CONFIGS / "rl"


def composed(*overrides: str, name: str = "train") -> DictConfig:
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(str(RL_CONFIGS if name == "rl" else CONFIGS), version_base="1.3"):
        return compose(name, list(overrides))
