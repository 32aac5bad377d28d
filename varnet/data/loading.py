"""A named dataset with its options -> tensors: the one entry point, `load`."""

from dataclasses import replace
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from varnet.base.checks import whole
from varnet.data import sets
from varnet.data.dataset import Dataset
from varnet.data.spec import DATASETS, check_own, find
from varnet.data.subset import chosen, others, permuted, take
from varnet.errors import ConfigError

sets.register_all()
NAMES = tuple(name for name, spec in DATASETS.items() if not spec.needed)  # a name is enough


def load(
    name: str,
    data_dir: str | PathLike | None = None,
    labels: str | None = None,
    train_size: int | None = None,
    test_size: int | None = None,
    validation_size: int | None = None,
    augment: bool | str = False,
    seed: int = 0,
    **own: Any,
) -> Dataset:
    """Load `name`, fetching it on first use.

    data_dir         folder of the data; by default the environment variable VARNET_DATA, else `data`
    labels           cifar100: fine (default) or coarse; any dataset: random, the training labels permuted by `seed`
                     (of CIFAR-100 the fine ones; validation and test labels stay true)
    train_size       class-balanced part of the training images; the same for test_size
    validation_size  this many training images, class-balanced, are held out as validation_x, validation_y; where
                     targets are numbers such parts are random
    augment          whether the training loader crops and flips; alternating: flips every image in every second epoch
    seed             of the subsets, the random labels and the toy points; not the seed of the training
    own              the dataset's own options:
                     digits  size, channels: images of 28 x 28 x 1 (default), or 32 x 32 x 3 for a network for CIFAR
                     custom  target: a function, or where it is (package.module:function); it is called with `options`
                             and gives a Dataset, or a dict or tuple of train_x, train_y, test_x, test_y and, if need
                             be, classes, mean, std: tensors or numpy arrays, images uint8 or anything in floats,
                             targets whole numbers of classes, or numbers: floats, or anything of shape (N, D)
                     table   file: CSV with a header; target: name of the column to predict, or a list of names;
                             classes: whether it holds classes; test_fraction: of the rows, 0.2 unless given
    """
    spec = find(name)
    known = ("random", *spec.labels)
    if labels is not None and labels not in known:
        raise ConfigError(f"is not known for dataset={name}: use null or {', '.join(known)}", "labels", labels)
    own = check_own(spec, own)
    whole(0)("seed", seed)
    data = spec.load(data_dir, labels, seed, own)
    if augment and data.train_x.dtype != torch.uint8:
        raise ConfigError(f"crops and flips images, and dataset={name} has none: use augment=false", "augment", augment)
    parts = _split(data, train_size, test_size, validation_size, seed)
    if labels == "random":
        parts = replace(parts, train_y=permuted(parts.train_y, seed))
    parts = scaled(parts) if spec.scaled else parts
    return replace(parts, augment=augment)


def scaled(data: Dataset) -> Dataset:
    """Inputs of mean 0 and standard deviation 1 in the training set, column by column; constant ones stay at 0."""
    mean, std = data.train_x.double().mean(0), data.train_x.double().std(0, correction=0)
    std = torch.where(std > 1e-12 * mean.abs(), std, 1.0)
    splits = {key: x for key in ("train_x", "test_x", "validation_x") if (x := getattr(data, key)) is not None}
    return replace(data, **{key: ((x.double() - mean) / std).float() for key, x in splits.items()})


def _split(
    data: Dataset, train_size: int | None, test_size: int | None, validation_size: int | None, seed: int
) -> Dataset:
    if validation_size is not None and data.validation_y is not None:
        raise ConfigError(
            f"is invalid: dataset={data.name} has validation data, so use null", "validation_size", validation_size
        )
    if size := _given("validation_size", validation_size, len(data.train_y) - 1, "training images", data.name):
        held = chosen(data.train_y, size, seed)
        held_out = _pair(data, "train", "validation", held)
        data = replace(_part(data, "train", others(len(data.train_y), held)), **held_out)
    left = f"training images left by validation_size={validation_size}" if validation_size else "training images"
    if size := _given("train_size", train_size, len(data.train_y), left, data.name):
        data = _part(data, "train", chosen(data.train_y, size, seed))
    if size := _given("test_size", test_size, len(data.test_y), "test images", data.name):
        data = _part(data, "test", chosen(data.test_y, size, seed))
    return data


def _part(data: Dataset, split: str, indices: Tensor) -> Dataset:
    return replace(data, **_pair(data, split, split, indices))


def _pair(data: Dataset, split: str, new_name: str, indices: Tensor) -> dict[str, Any]:
    return {f"{new_name}_{end}": take(getattr(data, f"{split}_{end}"), indices) for end in ("x", "y")}


def _given(key: str, value: int | None, most: int, what: str, name: str) -> int | None:
    if value is None or whole(1, most).fits(value):
        return value
    raise ConfigError(f"does not fit the {what} of dataset={name}: use null or a whole number up to {most}", key, value)
