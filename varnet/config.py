"""A configuration: checked before anything is written, and what makes two runs the same run."""

import hashlib
import json
import math
from collections.abc import Callable
from difflib import get_close_matches

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from varnet.schedule import DECAYS

# What may differ between the start of a run and its continuation, and is no part of its identity.
HARMLESS = ("eval.every",)
RUNTIME = (
    "out_dir", "data_dir", "resume", "render", "device", "threads", "jobs", "checkpoint_every", "checkpoint_minutes",
    "snapshots", "name",
)  # fmt: skip

GROUPS = {  # group -> its keys
    "dataset": (
        "name", "labels", "train_size", "test_size", "validation_size", "augment", "seed", "size", "channels",
    ),
    "model": ("name", "width", "sizes", "activation", "bias", "batch_norm", "affine", "dropout"),
    "param": ("name", "layers", "log_alpha", "log_sigma", "clip", "learn", "noise", "threshold", "l2"),
    "prior": ("name", "estimator", "nu", "gradient", "scale", "learn_scale"),
    "schedule": (
        "epochs", "batch_size", "lr", "decay", "warmup", "beta", "beta_from", "beta_until", "log_alpha",
    ),
    "schedule.log_alpha": ("lr_mult", "beta2"),
    "eval": ("every", "samples", "elbo_samples", "max_batch"),
}  # fmt: skip
KEYS = (
    "name", "scale", "seed", "out_dir", "data_dir", "resume", "init_from", "device", "threads", "precision",
    "channels_last", "compile", "deterministic", "checkpoint_every", "checkpoint_minutes", "snapshots",
)  # fmt: skip


class ConfigError(ValueError):
    """One sentence for the user: key, value, remedy."""


def shown(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def whole(low: int) -> tuple[Callable[[object], bool], str]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= low, f"a whole number from {low}"


def number(low: float = -math.inf, above: bool = False) -> tuple[Callable[[object], bool], str]:
    def fits(v: object) -> bool:
        real = isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)
        return real and (v > low if above else v >= low)

    return fits, "a number" + ("" if low == -math.inf else f" {'above' if above else 'from'} {low:g}")


def one_of(*choices: object) -> tuple[Callable[[object], bool], str]:
    return lambda v: any(v == c and type(v) is type(c) for c in choices), "one of " + ", ".join(
        shown(c) for c in choices
    )


def between(low: int, high: int) -> tuple[Callable[[object], bool], str]:
    return lambda v: whole(low)[0](v) and v <= high, f"a whole number from {low} to {high}"


def folder_name(v: object) -> bool:
    parts = str(v).split("/")
    return isinstance(v, str) and all(part not in ("", ".", "..") for part in parts)


def list_of(fits_one: Callable[[object], bool], wanted: str) -> tuple[Callable[[object], bool], str]:
    return lambda v: isinstance(v, list | ListConfig) and all(map(fits_one, v)), wanted


def or_null(check: tuple[Callable[[object], bool], str]) -> tuple[Callable[[object], bool], str]:
    return lambda v: v is None or check[0](v), f"{check[1]}, or null"


SWITCH = one_of(True, False)
FOLDER = (lambda v: isinstance(v, str) and v != "", "the name of a folder (a number as ./5)")
CHECKS = {
    "seed": between(0, 2**31 - 1),
    "name": (folder_name, "a name of a folder inside out_dir"),
    "out_dir": FOLDER,
    "scale": or_null(one_of("small")),
    "threads": or_null(between(1, 1024)),
    "precision": one_of("fp32", "bf16", "fp16"),
    "channels_last": one_of("auto", True, False),
    "compile": SWITCH,
    "deterministic": SWITCH,
    "checkpoint_every": whole(1),
    "checkpoint_minutes": or_null(number(0, above=True)),
    "snapshots": or_null(list_of(whole(1)[0], "a list of epochs, e.g. [10,20]")),
    "eval.every": whole(1),
    "eval.samples": whole(1),
    "eval.elbo_samples": whole(1),
    "eval.max_batch": whole(1),
    "schedule.epochs": whole(1),
    "schedule.batch_size": or_null(whole(1)),
    "schedule.lr": number(0, above=True),
    "schedule.decay": one_of(*DECAYS),
    "schedule.warmup": number(0),
    "schedule.beta": number(0),
    "schedule.beta_from": number(0),
    "schedule.beta_until": number(0),
    "schedule.log_alpha.lr_mult": number(0, above=True),
    "schedule.log_alpha.beta2": number(0),
    "param.l2": number(0),
    "dataset.augment": SWITCH,
    "model.width": number(0, above=True),
    "model.bias": or_null(SWITCH),
    "model.affine": or_null(SWITCH),
    "model.dropout": or_null(SWITCH),
}


def check_values(
    cfg: DictConfig, groups: dict[str, tuple[str, ...]], keys: tuple[str, ...], checks: dict[str, tuple], command: str
) -> None:
    """Groups that are groups, keys that are known in them and beside them, values that fit."""
    for group, known in groups.items():
        found = OmegaConf.select(cfg, group)
        if not isinstance(found, DictConfig):
            raise ConfigError(f"{group}={shown(found)} does not do: {command} --help lists the choices")
        for key in found:
            if key not in known:
                name = f"{group}.{key}"
                raise ConfigError(
                    f"{name}={shown(found[key])}: there is no key {name}; choose from: {', '.join(known)}"
                )
    for key in cfg:
        if key not in keys and key not in groups:
            raise ConfigError(f"{key}={shown(cfg[key])}: there is no key {key}; {command} --help lists the keys")
    check_each(cfg, checks)


def check_each(cfg: DictConfig, checks: dict[str, tuple]) -> None:
    for key, (fits, wanted) in checks.items():
        try:
            value = OmegaConf.select(cfg, key)
        except OmegaConfBaseException as error:  # ${...} that leads nowhere
            raise ConfigError(f"{key} has no value ({str(error).splitlines()[0]}): give one, {wanted}") from error
        if not fits(value):
            raise ConfigError(f"{key}={shown(value)} does not do: use {wanted}")


def overridden(defaults: DictConfig, overrides: list[str], checks: dict[str, tuple]) -> DictConfig:
    """The settings of a script with key=value from the command line; keys of groups are written group.key."""
    known = [
        name for key, value in defaults.items()
        for name in ([f"{key}.{inner}" for inner in value] if isinstance(value, DictConfig) else [key])
    ]  # fmt: skip
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not equals or key not in known:
            problem = f"there is no key {key}" if equals else "it is no key=value"
            raise ConfigError(f"{override}: {problem}; use key=value with one of {', '.join(known)}")
        defaults = OmegaConf.merge(defaults, from_override(override))
    check_each(defaults, checks)
    return defaults


def from_override(override: str) -> DictConfig:
    """key=value as a configuration."""
    try:
        return OmegaConf.from_dotlist([override])
    except YAMLError as error:
        raise ConfigError(f"{override} cannot be read: close its brackets and quotation marks") from error


def check(cfg: DictConfig) -> None:
    """Values of the right kind and range; what depends on data and model is checked when they are made."""
    check_values(cfg, GROUPS, KEYS, CHECKS, "python train.py")
    schedule = cfg.schedule
    if late := [epoch for epoch in cfg.get("snapshots") or () if epoch > schedule.epochs]:
        raise ConfigError(
            f"snapshots={shown(cfg.snapshots)} does not do: epoch {late[0]} comes after the last one, "
            f"schedule.epochs={schedule.epochs}"
        )
    if schedule.beta_until < schedule.beta_from:
        raise ConfigError(
            f"schedule.beta_until={schedule.beta_until} comes before schedule.beta_from={schedule.beta_from}: "
            "use a later epoch"
        )
    if schedule.log_alpha.beta2 >= 1:
        raise ConfigError(f"schedule.log_alpha.beta2={schedule.log_alpha.beta2} does not do: use a number below 1")


def flat(values: dict, prefix: str = "") -> dict:
    """{"a": {"b": 1}} -> {"a.b": 1}"""
    found = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def identity(cfg: DictConfig) -> dict:
    """The resolved configuration without what does not change the result, and without nulls: a new option whose
    default is null leaves the identity of earlier runs as it was."""
    values = plain(cfg)
    values["eval"] = {key: value for key, value in values["eval"].items() if f"eval.{key}" not in HARMLESS}
    return without_nulls({key: value for key, value in values.items() if key not in RUNTIME})


def without_nulls(values: dict) -> dict:
    return {k: without_nulls(v) if isinstance(v, dict) else v for k, v in values.items() if v is not None}


def plain(cfg: DictConfig) -> dict:
    return OmegaConf.to_container(cfg, resolve=True)


def digest(cfg: DictConfig) -> str:
    return hashlib.sha256(json.dumps(identity(cfg), sort_keys=True).encode()).hexdigest()[:8]


def differences(mine: dict, saved: dict, prefix: str = "") -> list[str]:
    """key=mine (saved: value), for every leaf that differs."""
    lines = []
    for key in sorted(mine.keys() | saved.keys()):
        a, b = mine.get(key), saved.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            lines += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            lines.append(f"{prefix}{key}={shown(a)} (the run has {shown(b)})")
    return lines


def explain(error: Exception, overrides: list[str]) -> str:
    """A message of Hydra in one sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "Could not find" in lines[0] and "Available options" in str(error):
        group, _, choice = lines[0].split("'")[-2].rpartition("/")
        options = []
        for line in lines[lines.index(next(x for x in lines if "Available options" in x)) + 1 :]:
            if line.startswith("Config search path"):
                break
            options.append(line)
        close = get_close_matches(choice, options, 1)
        hint = f"; did you mean {group}={close[0]}?" if close else ""
        return f"{group}={choice} is not known: choose one of {', '.join(options)}{hint}"
    if "Could not override" in lines[0]:
        key = lines[0].split("'")[1]
        given = next((o for o in overrides if o.lstrip("+~").startswith(key)), key)
        return f"{given}: there is no key {key}; python train.py --help lists the keys"
    if "Config group override must be" in lines[0]:
        given = next((o for o in overrides if o.endswith(("=null", "="))), "this")
        return f"{given} does not do: a group takes one of its choices; python train.py --help lists them"
    return " ".join(line for line in lines if not line.startswith("See http"))
