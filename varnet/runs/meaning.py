"""Options that mean nothing for what was chosen: refused where a run is asked for, let be where one is opened.

An option of another choice would be ignored without a word, and would still be part of the run's identity.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from omegaconf import DictConfig

from varnet.data.spec import DATASETS
from varnet.errors import ConfigError
from varnet.nn.networks.registry import NETWORKS, own_options
from varnet.nn.params import PARAMS, Parameterization
from varnet.nn.params.deterministic import Deterministic
from varnet.nn.priors import PRIORS
from varnet.nn.registry import Registry, options_of
from varnet.runs.identity import plain
from varnet.runs.schema import check

DROPOUT = "dropout"  # a deterministic network with binary dropout


def check_new(cfg: DictConfig) -> None:
    """Of a run that the command line asks for: each value fits, and each one says something."""
    check(cfg)
    values = plain(cfg)
    for key, value, problem in _idle(values):
        raise ConfigError(problem, key, value)


def owners(key: str) -> list[str]:
    """The choices whose option this is: prior.nu -> prior=student."""
    group, _, option = key.partition(".")
    found: dict[str, list[str]] = {
        "param": [name for name, cls in PARAMS.items() if option in _used(cls)],
        "prior": [name for name, cls in PRIORS.items() if option in options_of(cls)],
        "model": [own_options()[option]] if option in own_options() else [],
        "dataset": [name for name, spec in DATASETS.items() if option in spec.options],
    }
    if option in ("target", "options") and group == "model":
        return ["model=custom"]
    return [f"{group}={name}" for name in found.get(group, ())]


def check_param(cls: type[Parameterization], options: Mapping[str, Any], group: str, chosen: str) -> None:
    """Refuse options that differ from their defaults and say nothing about this parameterization.

    group: of the configuration, chosen: what its user chose, for the message
    """
    for key, value in options.items():
        if _says(PARAMS, key, value) and key not in _used(cls):
            raise ConfigError(_misplaced(f"param.{key}", chosen), f"{group}.{key}", value)


def _idle(values: dict) -> Iterator[tuple[str, object, str]]:
    """Key, value and what is wrong with it."""
    param, prior, model, schedule = (values[group] for group in ("param", "prior", "model", "schedule"))
    name = param["name"]
    cls: Any = Deterministic if name == DROPOUT else PARAMS.get(name)
    own_prior: Any = PRIORS.get(prior["name"])
    if cls is None or own_prior is None:  # which is refused where they are made
        return
    chosen = f"param={name}"
    check_param(cls, {key: value for key, value in param.items() if key in PARAMS.options()}, "param", chosen)
    for key, value in prior.items():
        if key not in PRIORS.options() or not _says(PRIORS, key, value):
            continue
        if key not in options_of(own_prior):
            yield f"prior.{key}", value, _misplaced(f"prior.{key}", f"prior={prior['name']}")
        elif cls.deterministic or (cls.zero_mean and own_prior.of_alpha):
            yield f"prior.{key}", value, f"has no meaning for {chosen}, whose KL is 0: leave it out"
    if name == DROPOUT and model.get("dropout") is False:
        yield "model.dropout", False, "is invalid for param=dropout: use param=deterministic"
    if model.get("affine") is False and not _normed(model):
        yield "model.affine", False, "has no meaning without batch norm: use model.batch_norm=true, or leave it out"
    if schedule.get("momentum") is not None and schedule.get("optimizer") != "sgd":
        yield (
            "schedule.momentum",
            schedule["momentum"],
            "is only for schedule.optimizer=sgd: use that, or leave it out",
        )


def _used(cls: type[Parameterization]) -> list[str]:
    return [key for key in options_of(cls) if key not in cls.without]


def _says(registry: Registry, key: str, value: object) -> bool:
    """Whether it is neither null nor what the option is anyway."""
    defaults = [one.default for cls in registry.values() for one in fields(cls) if one.name == key]
    return value is not None and (tuple(value) if isinstance(value, list) else value) not in defaults


def _normed(model: dict) -> bool:
    own = NETWORKS.get(model["name"])
    return bool(own and own.batch_norm if model.get("batch_norm") is None else model["batch_norm"])


def _misplaced(key: str, chosen: str) -> str:
    return f"has no meaning for {chosen}: leave it out, or use {' or '.join(owners(key)) or 'another'}"
