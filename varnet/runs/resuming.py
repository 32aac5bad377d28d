"""Going on with a run: its own configuration, and what of it may be given anew."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from varnet.errors import ConfigError, shown
from varnet.runs.folder import CONFIG, TARGETS, TRAIN, saved_config
from varnet.runs.identity import HARMLESS, RUNTIME, differences
from varnet.runs.overrides import from_override


def resumed(folder: Path, overrides: list[str], script: str = TRAIN) -> DictConfig:
    """The run's own configuration; only what changes neither its result nor its place may be given anew."""
    named = dict(override.lstrip("+").split("=", 1) for override in overrides if "=" in override)
    cfg = saved_config(folder, script=script, targets={key: named[key] for key in TARGETS if key in named})
    unknown = object()
    for override in overrides:
        key, equals, value = override.lstrip("+").partition("=")
        mine = OmegaConf.select(cfg, key, default=unknown) if equals and key else unknown
        free = (key in HARMLESS and mine is not unknown) or (key in RUNTIME and key not in ("out_dir", "name"))
        if mine is unknown and not free:
            raise ConfigError(f"{override} is no key=value of the run in {folder}: leave it out")
        value = OmegaConf.select(from_override(f"{key}={value}"), key)
        if free:
            OmegaConf.update(cfg, key, value)
        elif value not in (mine, mine.get("name") if isinstance(mine, DictConfig) else mine):
            raise ConfigError(
                f"{override} does not fit resume={folder}, which has {key}={shown(mine)}: leave it out, "
                "or start a new run"
            )
    return cfg


def check_fits(cfg_identity: dict, saved_identity: dict, folder: Path) -> None:
    if lines := differences(cfg_identity, saved_identity):
        raise ConfigError(
            f"{folder}: the configuration does not fit its checkpoint: {'; '.join(lines[:3])}; restore {CONFIG}, or "
            "start a new run"
        )
