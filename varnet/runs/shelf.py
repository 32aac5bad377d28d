"""Trained networks to open: a folder NAME with card.yaml, which says what it is, and network.safetensors.

    varnet.load("NAME").model           in evaluation mode, on the CPU
    varnet evaluate NAME, varnet attack NAME

They lie in networks/, beside configs/; a wheel has the small ones. Nothing is unpickled or imported: a card is plain
values (runs/stored.py), and a network is made only once its file is known to hold as many numbers as it needs.
scripts/publish.py puts a run there (report/shelving.py).
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from varnet.base import tensors
from varnet.base.checks import TEXT, Check, list_of, number, one_of, or_null, whole
from varnet.data import Dataset
from varnet.errors import ConfigError
from varnet.nn import networks
from varnet.runs import stored
from varnet.runs.build import build_model, load_data
from varnet.runs.composing import CONFIGS
from varnet.runs.custom import CUSTOM
from varnet.runs.identity import plain as values_of
from varnet.runs.packing import unpacked
from varnet.runs.schema import check

NETWORKS = CONFIGS.parent / "networks"  # inside of the package in a wheel
CARD, FILE, FORMAT = "card.yaml", "network.safetensors", "varnet network 1"
PLACES = {"out_dir": "outputs", "data_dir": None, "resume": None, "init_from": None}  # of a run, which no card tells
NUMBERS = Path("outputs", "stored")  # of what is measured on a stored network, in the current folder
CHECKS = {
    "format": one_of(FORMAT),
    "name": TEXT,
    "kind": one_of("network", "compact"),
    "config": Check(lambda v: isinstance(v, dict), "the configuration of a run"),
    "metrics": Check(lambda v: isinstance(v, dict), "the metrics of a run"),
    "in_shape": list_of(whole(1, 4096), "up to three numbers"),
    "classes": whole(2, 100_000),
    "mean": or_null(list_of(number(), "a number for each channel")),
    "std": or_null(list_of(number(0, above=True), "a number for each channel")),
    "sha256": TEXT,
}


class Stored(NamedTuple):
    """A trained network."""

    model: nn.Module
    card: dict[str, Any]  # what, configuration, commit, accuracy in every mode, size
    cfg: DictConfig
    folder: Path

    def data(self, data_dir: str | None = None) -> Dataset:
        """What it was trained on and tested with, fetched on first use."""
        return _data(self.cfg, data_dir)


def load(name: str | Path) -> Stored:
    """Open a trained network by its name (varnet.runs.shelf.names() lists them), or by a folder like those."""
    folder = find(name)
    card = read_card(folder)
    cfg = _config(card, folder)
    path = folder / FILE
    if not path.is_file():  # a pipe would be waited for
        raise ConfigError(f"{path} is no file: restore the folder")
    try:
        if digest(path) != card["sha256"]:
            raise tensors.Unreadable("is not the one that its card was written for")
        model = unpacked(path, card) if card["kind"] == "compact" else _built(path, card, cfg)
    except tensors.Unreadable as error:
        raise ConfigError(f"{path} {error}: restore the folder, or open no network of a stranger") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): restore the folder") from error
    return Stored(model.eval(), card, cfg, folder)


def names() -> list[str]:
    """The networks that are there."""
    return sorted(path.parent.name for path in NETWORKS.glob(f"*/{CARD}"))


def find(name: str | Path) -> Path:
    """The folder of a network, by its name or itself."""
    if (there := stored_at(Path(name))) is None:
        known = ", ".join(names()) or "none is here"
        raise ConfigError(
            f"{name} is no stored network: choose from {known}, or name a folder with a {CARD}; large ones are in the "
            "repository of varnet alone"
        )
    return there


def stored_at(place: Path) -> Path | None:
    """The folder of the stored network that a user means, if it is one. What lies in the current folder comes first."""
    if place.exists():
        return place if (place / CARD).is_file() else None
    by_name = NETWORKS / place.name
    return by_name if len(place.parts) == 1 and (by_name / CARD).is_file() else None


def home(place: Path) -> Path:
    """Where numbers about a run go, and those about a stored network, whose folder stays as it is."""
    there = stored_at(place)
    return place if there is None else NUMBERS / there.resolve().name


def opened(folder: Path, data_dir: str | None) -> tuple[Path, DictConfig, dict, Dataset, nn.Module]:
    """What runs.opening.Finished has of a run."""
    found = load(folder)
    data = found.data(data_dir)
    if (data.in_shape, data.classes) != (tuple(found.card["in_shape"]), found.card["classes"]):
        raise ConfigError(f"{folder / CARD} is of other data than its configuration names: restore the folder")
    return folder, found.cfg, found.card["metrics"], data, found.model


# ---- the card


def read_card(folder: Path) -> dict[str, Any]:
    """What a card says, every value that is needed to open the network checked."""
    path = folder / CARD
    try:
        card: Any = OmegaConf.to_container(stored.load(path))
        assert isinstance(card, dict)
    except stored.Refused as error:
        raise ConfigError(f"{path} {error}: restore it, or open no network of a stranger") from error
    except Exception as error:
        raise ConfigError(f"{path} cannot be read: restore it, or open no network of a stranger") from error
    for key, wanted in CHECKS.items():
        try:
            wanted(key, card.get(key))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
    if len(card["in_shape"]) > 3 or "name" not in card["config"].get("model", {}):
        raise ConfigError(f"{path} describes no network for images or points: restore it")
    return card


def _config(card: dict, folder: Path) -> DictConfig:
    """The configuration of its run; it names no code."""
    cfg = OmegaConf.create(card["config"] | PLACES)
    try:
        check(cfg)
    except ConfigError as error:
        raise ConfigError(f"{folder / CARD} is of another version of varnet: use that one; {error}") from error
    if CUSTOM in (cfg.model.name, cfg.dataset.name):
        raise ConfigError(f"{folder / CARD} needs code of its author, which a folder may not name: open the run itself")
    return cfg


def _data(cfg: DictConfig, data_dir: str | None) -> Dataset:
    cfg = cfg.copy()
    cfg.data_dir = data_dir
    return load_data(cfg)


# ---- the network


def _built(path: Path, card: dict, cfg: DictConfig) -> nn.Module:
    held = sum(torch.Size(shape).numel() for shape in tensors.shapes(path).values())
    if _least(card, cfg) > held:
        raise tensors.Unreadable("holds fewer numbers than its network has")
    model = build_model(cfg, _blank(card, cfg))
    state = tensors.load(path, {name: tuple(value.shape) for name, value in model.state_dict().items()})
    model.load_state_dict(state)
    return model


def _least(card: dict, cfg: DictConfig) -> int:
    """Weights of the network without noise, counted without memory for them."""
    options = {key: value for key, value in values_of(cfg.model).items() if key != "name"}
    try:
        with torch.device("meta"):
            plain = networks.build(cfg.model.name, card["in_shape"], card["classes"], **options, layers="none")
    except (RuntimeError, OverflowError, TypeError) as error:  # how torch says that a number is too large
        raise tensors.Unreadable("has a network that fits into no memory") from error
    return sum(p.numel() for p in plain.parameters())


def _blank(card: dict, cfg: DictConfig) -> Dataset:
    """The kind of data, none of it: enough to make a network for it."""
    none, x = torch.empty(0, dtype=torch.long), torch.empty(0, *card["in_shape"], dtype=torch.uint8)
    return Dataset(cfg.dataset.name, x, none, x, none, card["classes"], "none", card.get("mean"), card.get("std"))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
