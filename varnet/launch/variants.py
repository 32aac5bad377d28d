"""The configurations of a sweep's jobs, which differ in a few values: groups are composed once for each choice of them,
and values set in a copy, as Hydra itself does it after composing. Composing every job takes Hydra many times as long.
"""

import contextlib
import copy
import functools
from collections.abc import Iterator

from hydra import compose
from hydra._internal import hydra as starting
from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

_composed: dict[tuple, DictConfig] = {}  # of this process, which may do many jobs of a sweep


class Variants:
    """Configurations of train.py with the same overrides of Hydra's own, to be planned."""

    def __init__(self, own: list[str]):
        self.own, self.known = own, {}

    def __call__(self, overrides: list[str]) -> DictConfig:
        loader = GlobalHydra.instance().config_loader()
        groups, values = _split(loader, overrides)
        key = tuple(groups)
        if key not in self.known:
            self.known[key] = compose("train", self.own + groups)
        return _with(self.known[key], values)


class VariantLoader(ConfigLoaderImpl):
    """Hydra's loader, for hydra.main of a sweep and, pickled, for the processes of its jobs."""

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The whole configuration of a job, Hydra's own included."""
        groups, values = _split(self, sweep_overrides)
        common = master_config.hydra.overrides.hydra
        key = (str(self.config_search_path), master_config.hydra.job.config_name, *common, None, *groups)
        if key not in _composed:
            _composed[key] = super().load_sweep_config(master_config, groups)
        cfg = _with(_composed[key], values)
        parsed = [_parsed(override) for override in sweep_overrides]
        how = cfg.hydra.job.config.override_dirname
        with open_dict(cfg.hydra):
            cfg.hydra.overrides.task = [o.input_line for o in parsed]
            cfg.hydra.job.override_dirname = get_overrides_dirname(
                overrides=parsed, kv_sep=how.kv_sep, item_sep=how.item_sep, exclude_keys=how.exclude_keys
            )
        OmegaConf.copy_cache(from_config=master_config, to_config=cfg)
        return cfg


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Inside, hydra.main composes its jobs in this way."""
    starting.ConfigLoaderImpl = VariantLoader
    try:
        yield
    finally:
        starting.ConfigLoaderImpl = ConfigLoaderImpl


def _split(loader: ConfigLoaderImpl, overrides: list[str]) -> tuple[list[str], list[Override]]:
    """Choices of groups, and values to be set; told apart as Hydra does it: group={...} sets values."""
    parsed = [_parsed(override) for override in overrides]
    loader.validate_sweep_overrides_legal(overrides=parsed, run_mode=RunMode.RUN, from_shell=True)
    chosen = [loader.repository.group_exists(o.key_or_group) and not isinstance(o.value(), dict) for o in parsed]
    groups = [o.input_line for o, group in zip(parsed, chosen, strict=True) if group]
    return groups, [o for o, group in zip(parsed, chosen, strict=True) if not group]


def _with(cfg: DictConfig, values: list[Override]) -> DictConfig:
    cfg = copy.deepcopy(cfg)
    ConfigLoaderImpl._apply_overrides_to_config(values, cfg)
    return cfg


@functools.lru_cache(10_000)
def _parsed(override: str) -> Override:
    return OverridesParser.create().parse_override(override)
