"""One run: its configuration -> data, model and folder."""

import contextlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from varnet import checkpoint, config, distributed, models
from varnet.config import HARMLESS, RUNTIME, ConfigError, check, differences, digest, from_override, plain, shown
from varnet.data import DataError, Dataset, load
from varnet.layers import layers_of

CONFIG, METRICS, HISTORY = ".hydra/config.yaml", "metrics.json", "history.jsonl"
TRAIN, RL = "train.py", "scripts/rl.py"  # whose runs there are


def load_data(cfg: DictConfig) -> Dataset:
    """The dataset of a run; digits come in the size that the model takes."""
    options = plain(cfg.dataset)
    if cfg.model.name not in models.NETWORKS:
        raise ConfigError(f"model.name={cfg.model.name} is not known: choose one of {', '.join(models.NETWORKS)}")
    if options["name"] == "digits" and models.NETWORKS[cfg.model.name].image == 32:
        options["size"], options["channels"] = options["size"] or 32, options["channels"] or 3
    try:
        data = load(**options, data_dir=cfg.data_dir)
    except DataError as error:
        keys = ("labels=", "train_size=", "test_size=", "validation_size=", "seed=", "size=", "channels=", "augment=")
        raise ConfigError(f"dataset.{error}" if str(error).startswith(keys) else str(error)) from error
    size = cfg.schedule.batch_size
    if size is not None and size > len(data.train_y):
        raise ConfigError(
            f"schedule.batch_size={size} is larger than the {len(data.train_y)} training objects of "
            f"dataset={data.name}: use a smaller one, or null for all at once"
        )
    return data


def build_model(cfg: DictConfig, data: Dataset) -> nn.Sequential:
    """The network of a run; errors name the configuration's keys."""
    param, prior, network = plain(cfg.param), plain(cfg.prior), plain(cfg.model)
    param.pop("l2")
    name, layers = param.pop("name"), param.pop("layers")
    if name in ("dropout", "deterministic") and layers not in (None, "none", []):
        raise ConfigError(
            f"param.layers={layers} has no meaning for param={name}, which has no random weights: leave it out"
        )
    if name not in ("dropout", "deterministic") and layers in ("none", []):
        raise ConfigError(f"param.layers={layers} leaves no layer random: use param=deterministic")
    if name == "dropout":
        name, layers, network["dropout"] = "deterministic", "none", True
    options = {key: value for key, value in (param | prior).items() if key != "name" and value is not None}
    if param["clip"] is None:
        options["clip"] = None
    try:
        model = models.build(
            network.pop("name"), data.in_shape, data.classes, **network,
            layers=layers, param=name, prior=prior["name"], **options,
        )  # fmt: skip
    except ValueError as error:
        raise ConfigError(_with_key(str(error))) from error
    except (RuntimeError, MemoryError) as error:
        raise ConfigError(f"model.width={cfg.model.width} gives a network that does not fit in memory") from error
    if cfg.schedule.batch_size == 1 and any(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in model):
        raise ConfigError("schedule.batch_size=1 is too small for batch norm: use 2 or more, or model.batch_norm=false")
    return model


def _with_key(message: str) -> str:
    """`width=-1 ...` -> `model.width=-1 ...`"""
    keys = {key: group for group in ("model", "param", "prior") for key in config.GROUPS[group] if key != "name"}
    key = message.replace(":", "=").split("=")[0]
    return f"{keys[key]}.{message}" if key in keys else message


def folder_of(cfg: DictConfig) -> Path:
    return Path(cfg.out_dir) / str(cfg.name) / f"seed{cfg.seed}-{digest(cfg)}"


def finished(folder: Path) -> dict | None:
    """The metrics of a finished run; a file that cannot be read is made anew from the checkpoint."""
    try:
        metrics = json.loads((folder / METRICS).read_text())
    except (OSError, ValueError):
        return None
    return metrics if isinstance(metrics, dict) and "acc_k" in metrics else None


@contextlib.contextmanager
def opened(folder: Path, cfg: DictConfig) -> Iterator[Path]:
    """The folder of a run, with its configuration in it, for this process alone."""
    with contextlib.ExitStack() as stack:
        try:
            (folder / ".hydra").mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(folder))
            if not (folder / CONFIG).exists():
                checkpoint.write_atomically(folder / CONFIG, OmegaConf.to_yaml(cfg, resolve=True).encode())
        except OSError as error:
            raise ConfigError(f"out_dir={cfg.out_dir} cannot be used ({error.strerror}): use another folder") from error
        yield folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with open(folder / ".lock", "a") as file:
        with contextlib.suppress(ImportError):  # no locks on Windows
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(f"{folder} is being written by another process: wait for it, or stop it") from error
        yield


def saved_config(folder: Path, key: str = "resume=", script: str = TRAIN) -> DictConfig:
    """The configuration of an earlier run of a script; `key` is what the user gave the folder with."""
    if not folder.is_dir():
        raise ConfigError(f"{key}{folder} is not a folder: name the folder of a run, e.g. outputs/NAME/seed0-1234abcd")
    if not (folder / CONFIG).exists():
        raise ConfigError(f"{key}{folder} holds no run ({CONFIG} is missing): name the folder of a run")
    try:
        cfg = OmegaConf.load(folder / CONFIG)
        assert isinstance(cfg, DictConfig) and "schedule" in cfg
    except Exception as error:
        raise ConfigError(f"{key}{folder}: {CONFIG} cannot be read; restore it or start the run anew") from error
    if (made_by := RL if "policy" in cfg else TRAIN) != script:
        raise ConfigError(f"{key}{folder} is a run of {made_by}: name the folder of a run of {script}")
    return cfg


class Finished(NamedTuple):
    """A run that has ended, to look at."""

    folder: Path
    cfg: DictConfig
    metrics: dict
    data: Dataset
    model: nn.Module
    members: tuple[str, ...] = ()  # of an ensemble: where they are


def open_finished(folder: Path, data_dir: str | None = None) -> Finished:
    """Nothing is written. A run that has not ended, or that this version cannot rebuild, is refused."""
    cfg = saved_config(folder, key="")
    if (metrics := finished(folder)) is None:
        raise ConfigError(f"{folder} has not ended: finish it with python train.py resume={folder}")
    stranger = f"{folder} was made by another version of varnet (commit {metrics.get('commit')}): use that version"
    try:
        check(cfg)
    except ConfigError as error:
        raise ConfigError(f"{stranger}; {error}") from error
    if data_dir is not None:
        cfg.data_dir = data_dir
    data = load_data(cfg)
    model = build_model(cfg, data)
    try:
        model.load_state_dict(checkpoint.load(folder)["model"])
    except RuntimeError as error:
        if isinstance(error, checkpoint.CheckpointError):
            raise
        raise ConfigError(f"{stranger}; its checkpoint does not fit the model of its configuration") from error
    return Finished(folder, cfg, metrics, data, model)


def resumed(folder: Path, overrides: list[str], script: str = TRAIN) -> DictConfig:
    """The run's own configuration; only what changes neither its result nor its place may be given anew."""
    cfg = saved_config(folder, script=script)
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
        elif (mine.get("name") if isinstance(mine, DictConfig) else mine) != value:
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


def initialise_from(model: nn.Module, path: Path) -> None:
    """Start from the weights of another run, a plain layer's `weight` becoming the `mu` of a variational one. What is
    not there, such as the noise of a layer that had none, starts as it would for a layer with those weights."""
    try:
        state = (checkpoint.load(path) if path.is_dir() else checkpoint.read(path))["model"]
    except (checkpoint.CheckpointError, KeyError) as error:
        raise ConfigError(f"init_from={path} has no weights: {error}; name a run's folder or checkpoint") from error
    own = model.state_dict()
    found = {}
    for key, tensor in own.items():
        stem, _, leaf = key.rpartition(".")
        names = {"mu": ("mu", "weight"), "sigma": ("sigma", "mu", "weight"), "weight": ("weight", "mu")}.get(
            leaf, (leaf,)
        )
        values = [state[f"{stem}.{n}"] for n in names if f"{stem}.{n}" in state]
        if values and values[0].shape != tensor.shape:
            shapes = f"{tuple(values[0].shape)} there, {tuple(tensor.shape)} here"
            raise ConfigError(f"init_from={path} does not fit the model: {key} is {shapes}; use the same model options")
        if values:
            found[key] = values[0]
    missing = [k for k in own if k not in found and k.rpartition(".")[2] in ("mu", "weight", "bias", "running_mean")]
    if missing:
        raise ConfigError(
            f"init_from={path} does not fit the model: it has no {', '.join(missing[:3])}; use the same model"
        )
    model.load_state_dict(own | found)
    with torch.no_grad():
        for name, layer in layers_of(model).items():
            means = [state[f"{name}.{n}"] for n in ("mu", "weight") if f"{name}.{n}" in state]
            for leaf, tensor in layer.param.tensors(means[0]).items() if means else ():
                if f"{name}.{leaf}" not in found:
                    getattr(layer, leaf).copy_(tensor)


def provenance(cfg: DictConfig) -> dict:
    """What a number needs beside it: seed, commit, versions, machine."""
    packages = ("torch", "torchvision", "numpy", "numba", "hydra-core")  # numba draws noise where it is installed
    found = {d.name: d.version for name in packages for d in distributions(name=name)}
    return {
        "seed": cfg.seed,
        "commit": commit(),
        "versions": {"python": platform.python_version(), **found},
        "machine": {
            "system": platform.system(), "processor": platform.machine(), "threads": torch.get_num_threads(),
            "processes": distributed.world_size(),
        },
    }  # fmt: skip


def commit() -> str | None:
    """Of the checkout that varnet runs from; `-dirty` if it has changes that are not committed."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=here, capture_output=True, text=True, timeout=10, check=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
