"""A configuration -> its data and its network."""

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from varnet.base.checks import one_of
from varnet.data import Dataset, load
from varnet.errors import CheckpointError, ConfigError
from varnet.nn import networks as models
from varnet.nn.layers import layers_of
from varnet.nn.layers.parts import PARTS
from varnet.runs import custom, likelihoods, schema
from varnet.runs.custom import CUSTOM
from varnet.runs.identity import plain
from varnet.train import checkpoint


def load_data(cfg: DictConfig) -> Dataset:
    """The dataset of a run, its targets as the likelihood takes them; digits come in the size that the model takes."""
    options = plain(cfg.dataset)
    if options["name"] == "digits" and _smallest_image(cfg) == 32:
        options["size"], options["channels"] = options["size"] or 32, options["channels"] or 3
    if options["name"] == "table" and options["classes"] is None:
        options["classes"] = likelihoods.chosen(cfg).classes
    try:
        data = load(**options, data_dir=cfg.data_dir)
    except ConfigError as error:
        raise error.under("dataset") from error
    data = likelihoods.suited(cfg, data)
    size = cfg.schedule.batch_size
    if size is not None and size > len(data.train_y):
        raise ConfigError(
            f"is larger than the {len(data.train_y)} training objects of dataset={data.name}: use a smaller one, or "
            "null for all at once", "schedule.batch_size", size,
        )  # fmt: skip
    return data


def _smallest_image(cfg: DictConfig) -> int:
    """That the network takes; 0: any."""
    one_of(*models.NETWORKS, CUSTOM)("model.name", cfg.model.name)
    return 0 if cfg.model.name == CUSTOM else models.NETWORKS[cfg.model.name].image


def build_model(cfg: DictConfig, data: Dataset) -> nn.Module:
    """The network of a run; errors name the configuration's keys."""
    network = plain(cfg.model)
    name, random = network.pop("name"), _random(cfg)
    likelihood = likelihoods.chosen(cfg)
    outputs = likelihood.outputs(data.targets or data.classes)
    for key in network.keys() & random.keys():
        group = group_of(key)
        raise ConfigError(f"is an option of the model too: rename it in {group}={random[group]}", f"{group}.{key}")
    if cfg.param.name == "dropout" and not network.get("dropout"):
        network["dropout"] = True
    try:
        if name == CUSTOM:
            model = custom.build(x=_two_objects(cfg, data), classes=outputs, **network, **random)
        else:
            model = _paper_network(cfg, name, data, outputs, network | random)
    except ConfigError as error:
        raise error.under(group_of(error.key)) from error
    if cfg.schedule.batch_size == 1 and any(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in model.modules()):
        remedy = "" if name == CUSTOM else ", or model.batch_norm=false"
        raise ConfigError(f"is too small for batch norm: use 2 or more{remedy}", "schedule.batch_size", 1)
    return _ending_in(likelihood.head(data.targets), model)


def _ending_in(head: nn.Module | None, model: nn.Module) -> nn.Module:
    """A network with what the likelihood learns behind it, which is called `noise`."""
    if head is None:
        return model
    if not isinstance(model, nn.Sequential):
        model = nn.Sequential(OrderedDict(network=model))
    model.add_module("noise", head)
    return model


def _paper_network(cfg: DictConfig, name: str, data: Dataset, outputs: int, options: dict) -> nn.Sequential:
    try:
        return models.build(name, data.in_shape, outputs, **options)
    except (RuntimeError, MemoryError) as error:
        raise ConfigError("gives a network that does not fit in memory", "width", cfg.model.width) from error


def _random(cfg: DictConfig) -> dict:
    """Which layers are random, and how: the options of varnet.variational."""
    param, prior = plain(cfg.param), plain(cfg.prior)
    param.pop("l2")
    name, layers = param.pop("name"), _names(param.pop("layers"))
    if name in ("dropout", "deterministic") and layers not in (None, "none", []):
        raise ConfigError(
            f"has no meaning for param={name}, which has no random weights: leave it out", "param.layers", layers
        )
    if name not in ("dropout", "deterministic") and layers in ("none", []):
        raise ConfigError("leaves no layer random: use param=deterministic", "param.layers", layers)
    if name == "dropout":
        name, layers = "deterministic", "none"
    options = {key: value for key, value in (param | prior).items() if key != "name" and value is not None}
    if param["clip"] is None:
        options["clip"] = None
    return {"layers": layers, "param": name, "prior": prior["name"], **options}


def _names(layers: object) -> object:
    """Names of layers: those of an nn.Sequential are numbers, and 2.10 has become 2.1 before it is seen here."""
    if isinstance(layers, list):
        return [_names(name) for name in layers]
    if isinstance(layers, float):
        raise ConfigError("is read as a number: put the name in quotation marks, e.g. ['2.0']", "param.layers", layers)
    return str(layers) if isinstance(layers, int) and not isinstance(layers, bool) else layers


def _two_objects(cfg: DictConfig, data: Dataset) -> Tensor:
    """To try a network on, as the trainer would show them."""
    two = replace(data, train_x=data.train_x[:2], train_y=data.train_y[:2])
    options = {"shuffle": False, "augment": False, "channels_last": cfg.channels_last is True}
    return next(iter(two.loader("train", None, rank=0, world_size=1, **options)))[0]


def group_of(option: str | None) -> str:
    """The group of the configuration that an option of a network is in."""
    known = schema.groups()
    return next((group for group in ("param", "prior") if option in known[group] and option != "name"), "model")


SAME = {  # what a layer cannot draw anew -> what another kind of layer has in its place
    "mu": ("mu", "weight"), "sigma": ("sigma", "mu", "weight"), "weight": ("weight", "mu"), "bias": ("bias",),
}  # fmt: skip


def initialise_from(model: nn.Module, path: Path) -> None:
    """Start from the weights of another run, a plain layer's `weight` becoming the `mu` of a variational one. What is
    not there, such as the noise of a layer that had none, starts as it would for a layer with those weights."""
    try:
        state = checkpoint.newest(path)["model"]
    except (CheckpointError, KeyError) as error:
        raise ConfigError(f"has no weights: {error}; name a run's folder or checkpoint", "init_from", path) from error
    own, layers = model.state_dict(), layers_of(model)
    found = {key: value for key in own if (value := _of_other_layer(key, state)) is not None}
    for key, value in found.items():
        if value.shape != own[key].shape:
            shapes = f"{key} is {tuple(value.shape)} there, {tuple(own[key].shape)} here"
            raise ConfigError(f"does not fit the model: {shapes}; use the same model options", "init_from", path)
    drawn = {key for key in own if key.rpartition(".")[0] in layers and key.rpartition(".")[2] not in SAME}
    if missing := [key for key in own if key not in found and key not in drawn]:
        raise ConfigError(
            f"does not fit the model: it has no {', '.join(missing[:3])}; use the same model", "init_from", path
        )
    model.load_state_dict(own | found)
    with torch.no_grad():
        for name, layer in layers.items():
            means = [state[key] for key in (f"{name}.mu", f"{name}.weight", _plain_name(name)) if key in state]
            for leaf, tensor in layer.param.tensors_of(layer, means[0]).items() if means else ():
                if f"{name}.{leaf}" not in found:
                    getattr(layer, leaf).copy_(tensor)


def _of_other_layer(key: str, state: dict[str, Tensor]) -> Tensor | None:
    stem, dot, leaf = key.rpartition(".")
    names = [stem + dot + n for n in SAME.get(leaf, (leaf,))]
    names += [_plain_name(stem)] if leaf in ("mu", "sigma") else [f"{stem}{dot}{PARTS}.{leaf}.mu"]
    return next((state[name] for name in names if name in state), None)


def _plain_name(part: str) -> str:
    """What a plain layer calls a tensor that is a random part: lstm.random.weight_hh_l0 -> lstm.weight_hh_l0."""
    return f".{part}".replace(f".{PARTS}.", ".").removeprefix(".")
