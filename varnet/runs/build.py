"""A configuration -> its data and its network."""

from pathlib import Path

import torch
from omegaconf import DictConfig
from torch import nn

from varnet.base.checks import one_of
from varnet.data import Dataset, load
from varnet.errors import CheckpointError, ConfigError
from varnet.nn import networks as models
from varnet.nn.layers import layers_of
from varnet.runs import schema
from varnet.runs.identity import plain
from varnet.train import checkpoint


def load_data(cfg: DictConfig) -> Dataset:
    """The dataset of a run; digits come in the size that the model takes."""
    options = plain(cfg.dataset)
    one_of(*models.NETWORKS)("model.name", cfg.model.name)
    if options["name"] == "digits" and models.NETWORKS[cfg.model.name].image == 32:
        options["size"], options["channels"] = options["size"] or 32, options["channels"] or 3
    try:
        data = load(**options, data_dir=cfg.data_dir)
    except ConfigError as error:
        raise error.under("dataset") from error
    size = cfg.schedule.batch_size
    if size is not None and size > len(data.train_y):
        raise ConfigError(
            f"is larger than the {len(data.train_y)} training objects of dataset={data.name}: use a smaller one, or "
            "null for all at once", "schedule.batch_size", size,
        )  # fmt: skip
    return data


def build_model(cfg: DictConfig, data: Dataset) -> nn.Sequential:
    """The network of a run; errors name the configuration's keys."""
    param, prior, network = plain(cfg.param), plain(cfg.prior), plain(cfg.model)
    param.pop("l2")
    name, layers = param.pop("name"), param.pop("layers")
    if name in ("dropout", "deterministic") and layers not in (None, "none", []):
        raise ConfigError(
            f"has no meaning for param={name}, which has no random weights: leave it out", "param.layers", layers
        )
    if name not in ("dropout", "deterministic") and layers in ("none", []):
        raise ConfigError("leaves no layer random: use param=deterministic", "param.layers", layers)
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
    except ConfigError as error:
        raise error.under(group_of(error.key)) from error
    except (RuntimeError, MemoryError) as error:
        raise ConfigError("gives a network that does not fit in memory", "model.width", cfg.model.width) from error
    if cfg.schedule.batch_size == 1 and any(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in model):
        raise ConfigError(
            "is too small for batch norm: use 2 or more, or model.batch_norm=false", "schedule.batch_size", 1
        )
    return model


def group_of(option: str | None) -> str:
    """The group of the configuration that an option of a network is in."""
    groups = (group for group in ("param", "prior") if option in schema.GROUPS[group] and option != "name")
    return next(groups, "model")


def initialise_from(model: nn.Module, path: Path) -> None:
    """Start from the weights of another run, a plain layer's `weight` becoming the `mu` of a variational one. What is
    not there, such as the noise of a layer that had none, starts as it would for a layer with those weights."""
    try:
        state = (checkpoint.load(path) if path.is_dir() else checkpoint.read(path))["model"]
    except (CheckpointError, KeyError) as error:
        raise ConfigError(f"has no weights: {error}; name a run's folder or checkpoint", "init_from", path) from error
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
            raise ConfigError(
                f"does not fit the model: {key} is {shapes}; use the same model options", "init_from", path
            )
        if values:
            found[key] = values[0]
    missing = [k for k in own if k not in found and k.rpartition(".")[2] in ("mu", "weight", "bias", "running_mean")]
    if missing:
        raise ConfigError(
            f"does not fit the model: it has no {', '.join(missing[:3])}; use the same model", "init_from", path
        )
    model.load_state_dict(own | found)
    with torch.no_grad():
        for name, layer in layers_of(model).items():
            means = [state[f"{name}.{n}"] for n in ("mu", "weight") if f"{name}.{n}" in state]
            for leaf, tensor in layer.param.tensors(means[0]).items() if means else ():
                if f"{name}.{leaf}" not in found:
                    getattr(layer, leaf).copy_(tensor)
