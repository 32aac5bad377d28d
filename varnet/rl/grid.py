"""Configurations of configs/rl from overrides as on the command line."""

import functools
import itertools
import re
from collections.abc import Callable

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob
from omegaconf import DictConfig

from varnet.errors import ConfigError
from varnet.rl.run import check_new
from varnet.runs import composing
from varnet.runs.folder import folder_of
from varnet.runs.overrides import said


def composed(overrides: list[str]) -> DictConfig:
    with said(overrides, "rl"):
        cfg = composing.composed(*overrides, name="rl")
    check_new(cfg)
    return cfg


def grid(overrides: list[str]) -> list[DictConfig]:
    """The runs of a sweep, each once."""
    compose_once = functools.cache(lambda others: composed(list(others)))
    found = {folder_of(cfg): cfg for cfg in (_seeded(each, compose_once) for each in expanded(overrides))}
    if not found:
        raise ConfigError(f"the sweep {' '.join(overrides)} has no run: give every key at least one value")
    return list(found.values())


def _seeded(overrides: list[str], compose_once: Callable[[tuple[str, ...]], DictConfig]) -> DictConfig:
    """Composition is slow, and the seeds of a sweep share it."""
    seeds = [override for override in overrides if override.lstrip("+~").startswith("seed")]
    if not (len(seeds) == 1 and re.fullmatch(r"seed=(0|[1-9]\d{0,17})", seeds[0])):
        return composed(overrides)
    cfg = compose_once(tuple(override for override in overrides if override not in seeds)).copy()
    cfg.seed = int(seeds[0].partition("=")[2])
    check_new(cfg)
    return cfg


def expanded(overrides: list[str]) -> list[list[str]]:
    """One list of overrides per run."""
    return [list(chosen) for chosen in itertools.product(*map(_choices, overrides))]


def _choices(override: str) -> list[str]:
    try:
        (parsed,) = OverridesParser.create().parse_overrides([override])
        if isinstance(parsed.value(), Glob):
            raise ConfigError(f"{override} is invalid: name the choices, with commas between them")
        if not parsed.is_sweep_override():
            return [override]
        return [f"{parsed.get_key_element()}={value}" for value in parsed.sweep_string_iterator()]
    except ConfigError:
        raise
    except Exception as error:  # Hydra's grammar, and what Python's range() raises
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"{override} cannot be read as a sweep ({reason}): write key=a,b or key=range(9)") from error
