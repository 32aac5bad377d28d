"""A named dataset with its options -> tensors: the one entry point, `load`."""

from dataclasses import dataclass, replace
from os import PathLike

import torch
from torch import Tensor

from varnet.base.checks import whole
from varnet.data import generated
from varnet.data.fetch import fetch
from varnet.data.folder import data_folder
from varnet.data.loader import Loader
from varnet.data.subset import balanced, others, permuted, take
from varnet.errors import ConfigError, DataError

NAMES = ("mnist", "cifar10", "cifar100", "digits", "toy")
CLASSES = {"mnist": 10, "cifar10": 10, "cifar100": 100, "digits": 10, "toy": 4}
COARSE_CLASSES = 20
# MNIST and digits stay in [0, 1] (the LeNet-5 protocol); CIFAR is normalised by channel.
STATISTICS = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images are uint8, (N, channels, height, width), channels-last in memory; toy points are float32, (N, 2)."""

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: int
    source: str
    mean: tuple[float, ...] | None = None  # per channel, of images in [0, 1]; None: not normalised
    std: tuple[float, ...] | None = None
    augment: bool = False
    validation_x: Tensor | None = None
    validation_y: Tensor | None = None

    @property
    def in_shape(self) -> tuple[int, ...]:
        return tuple(self.train_x.shape[1:])

    def loader(self, split: str = "train", batch_size: int | None = None, **options) -> Loader:
        """Batches of `train` (shuffled, augmented if the dataset is), `validation` or `test`; options of Loader."""
        x, y = getattr(self, f"{split}_x", None), getattr(self, f"{split}_y", None)
        if x is None:
            have = "train, test" if self.validation_x is None else "train, validation, test"
            raise DataError(f"split={split} is not there: {self.name} has {have}; validation_size=N holds images out.")
        train = {"shuffle": True, "augment": self.augment} if split == "train" else {}
        return Loader(x, y, batch_size, **{"mean": self.mean, "std": self.std, **train, **options})


def load(
    name: str,
    data_dir: str | PathLike | None = None,
    labels: str | None = None,
    train_size: int | None = None,
    test_size: int | None = None,
    validation_size: int | None = None,
    augment: bool = False,
    seed: int = 0,
    size: int | None = None,
    channels: int | None = None,
) -> Dataset:
    """Load `name`, fetching it on first use.

    data_dir         folder of the data; by default the environment variable VARNET_DATA, else `data`
    labels           cifar100: fine (default) or coarse; any dataset: random, the training labels permuted by `seed`
                     (of CIFAR-100 the fine ones; validation and test labels stay true)
    train_size       class-balanced part of the training images; the same for test_size
    validation_size  this many training images, class-balanced, are held out as validation_x, validation_y
    augment          whether the training loader crops and flips
    seed             of the subsets, the random labels and the toy points; not the seed of the training
    size, channels   digits only: images of 28 x 28 x 1 (default), or 32 x 32 x 3 for a network made for CIFAR
    """
    if name not in NAMES:
        raise ConfigError(f"is not known: choose one of {', '.join(NAMES)}", "name", name)
    _check_options(name, labels, augment, size, channels)
    whole(0)("seed", seed)
    if name == "digits":
        data = Dataset(name, **generated.digits(size or 28, channels or 1), classes=10, source="scikit-learn")
    elif name == "toy":
        data = Dataset(name, **generated.toy(seed), classes=4, source=f"generated with seed {seed}")
    else:
        data = _fetched(name, data_dir, labels)
    parts = _split(data, train_size, test_size, validation_size, seed)
    if labels == "random":
        parts = replace(parts, train_y=permuted(parts.train_y, seed))
    return replace(parts, augment=augment)


def _check_options(name: str, labels: str | None, augment: bool, size: int | None, channels: int | None) -> None:
    known = ("random", "fine", "coarse") if name == "cifar100" else ("random",)
    if labels is not None and labels not in known:
        raise ConfigError(f"is not known for dataset={name}: use null or {', '.join(known)}", "labels", labels)
    if augment and name == "toy":
        raise ConfigError("crops and flips images, and dataset=toy has none: use augment=false", "augment", augment)
    for key, value, allowed in (("size", size, (28, 32)), ("channels", channels, (1, 3))):
        if value is not None and name != "digits":
            raise ConfigError(f"is only for dataset=digits, not for dataset={name}: use {key}=null", key, value)
        if value is not None and value not in allowed:
            raise ConfigError(f"is not offered for digits: use {allowed[0]} or {allowed[1]}", key, value)


def _fetched(name: str, data_dir: str | PathLike | None, labels: str | None) -> Dataset:
    fetched = fetch(name, data_folder(data_dir))
    tensors = {key: torch.from_numpy(array) for key, array in fetched.arrays.items()}
    for split in ("train", "test"):
        tensors[f"{split}_x"] = tensors[f"{split}_x"].permute(0, 3, 1, 2)
        y = tensors[f"{split}_y"].long()
        tensors[f"{split}_y"] = y if y.ndim == 1 else y[:, 0 if labels == "coarse" else 1].contiguous()
    classes = COARSE_CLASSES if labels == "coarse" else CLASSES[name]
    mean, std = STATISTICS.get(name, (None, None))
    return Dataset(name, **tensors, classes=classes, source=fetched.source, mean=mean, std=std)


def _split(
    data: Dataset, train_size: int | None, test_size: int | None, validation_size: int | None, seed: int
) -> Dataset:
    if _given("validation_size", validation_size, len(data.train_y) - 1, "training images", data.name):
        chosen = balanced(data.train_y, validation_size, seed)
        held_out = _pair(data, "train", "validation", chosen)
        data = replace(_part(data, "train", others(len(data.train_y), chosen)), **held_out)
    left = f"training images left by validation_size={validation_size}" if validation_size else "training images"
    if _given("train_size", train_size, len(data.train_y), left, data.name):
        data = _part(data, "train", balanced(data.train_y, train_size, seed))
    if _given("test_size", test_size, len(data.test_y), "test images", data.name):
        data = _part(data, "test", balanced(data.test_y, test_size, seed))
    return data


def _part(data: Dataset, split: str, chosen: Tensor) -> Dataset:
    return replace(data, **_pair(data, split, split, chosen))


def _pair(data: Dataset, split: str, new_name: str, chosen: Tensor) -> dict[str, Tensor]:
    return {f"{new_name}_{end}": take(getattr(data, f"{split}_{end}"), chosen) for end in ("x", "y")}


def _given(key: str, value: int | None, most: int, what: str, name: str) -> bool:
    if value is None:
        return False
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return True
    raise ConfigError(f"does not fit the {what} of dataset={name}: use null or a whole number up to {most}", key, value)
