"""What a user's own function gives -> a Dataset; what does not fit is told in one sentence."""

import operator
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from varnet.base.checks import number
from varnet.data.dataset import Dataset

SPLITS = ("train", "test", "validation")
NEEDED = ("train_x", "train_y", "test_x", "test_y")
ORDER = (*NEEDED, "classes", "mean", "std")  # of a tuple
KNOWN = (*ORDER, "validation_x", "validation_y")
WANTED = f"{', '.join(NEEDED)} and, if need be, classes, mean, std"
IMAGES = "uint8 images (N, channels, height, width) or floats (N, ...)"


class Unfit(Exception):
    """What is wrong with it: the end of a sentence that begins with the function."""


def dataset_of(given: object, name: str, source: str) -> Dataset:
    """Raises Unfit unless `given` is a Dataset, a dict or a tuple of what a Dataset needs."""
    parts = _parts(given)
    splits = {key: _inputs(key, value) for key, value in parts.items() if key.endswith("_x")}
    _same_kind(splits)
    labels = {key: _targets(key, value, splits[f"{key[:-2]}_x"]) for key, value in parts.items() if key.endswith("_y")}
    _same_targets(labels)
    classes = _classes(parts.get("classes"), labels)
    mean, std = (_per_channel(key, parts.get(key), splits["train_x"]) for key in ("mean", "std"))
    tensors: dict[str, Any] = splits | labels
    return Dataset(name, **tensors, classes=classes, source=source, mean=mean, std=std)


def _parts(given: object) -> dict[str, Any]:
    """By name, without what is None."""
    if isinstance(given, Dataset):
        parts = {f.name: getattr(given, f.name) for f in fields(given) if f.name in KNOWN}
    elif isinstance(given, Mapping):
        parts = dict(given)
    elif isinstance(given, tuple) and len(NEEDED) <= len(given) <= len(ORDER):
        parts = dict(zip(ORDER, given, strict=False))
    else:
        what = f"a tuple of {len(given)}" if isinstance(given, tuple) else f"a value of type {type(given).__name__}"
        raise Unfit(f"gives {what}: return a Dataset, or a dict or tuple of {WANTED}")
    parts = {key: value for key, value in parts.items() if value is not None}
    if unknown := [key for key in parts if key not in KNOWN]:
        raise Unfit(f"gives {unknown[0]!r}, which is not known: return {WANTED}")
    pairs = [key for split in SPLITS if any(k.startswith(split) for k in parts) for key in (f"{split}_x", f"{split}_y")]
    if missing := [key for key in dict.fromkeys((*NEEDED, *pairs)) if key not in parts]:
        raise Unfit(f"gives no {missing[0]}: return {WANTED}")
    return parts


def _tensor(key: str, value: object) -> Tensor:
    if isinstance(value, np.ndarray):
        try:
            value = torch.from_numpy(value.copy())
        except (TypeError, ValueError) as error:
            raise Unfit(f"gives {key} of type {value.dtype}, which torch has not got: convert it") from error
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        raise Unfit(f"gives {key} of type {type(value).__name__}: return a dense tensor or numpy array")
    return value.detach().cpu()


def _inputs(key: str, value: object) -> Tensor:
    x = _tensor(key, value)
    if x.dtype != torch.uint8 and not x.is_floating_point():
        raise Unfit(f"gives {key} of type {_type(x)}: return {IMAGES}")
    if x.ndim < 2 or (x.dtype == torch.uint8 and x.ndim != 4):
        raise Unfit(f"gives {key} of type {_type(x)} and shape {tuple(x.shape)}: return {IMAGES}")
    if x.numel() == 0:
        raise Unfit(f"gives {key} of shape {tuple(x.shape)}, which is empty: return at least one value")
    if x.dtype == torch.uint8:
        return x.contiguous(memory_format=torch.channels_last)
    if not x.isfinite().all():
        raise Unfit(f"gives {key} with values that are not finite: replace or leave them out")
    return x.float()


def _same_kind(splits: dict[str, Tensor]) -> None:
    train = splits["train_x"]
    for key, x in splits.items():
        if (x.shape[1:], x.dtype) != (train.shape[1:], train.dtype):
            kinds = [f"{_type(one)} of shape {tuple(one.shape[1:])}" for one in (train, x)]
            raise Unfit(f"gives train_x with objects of type {kinds[0]} and {key} with {kinds[1]}: make them alike")


def _targets(key: str, value: object, x: Tensor) -> Tensor:
    """Classes as whole numbers (N,); numbers as float32 (N, D)."""
    y = _tensor(key, value)
    if y.is_complex() or y.ndim not in (1, 2) or y.numel() == 0:
        raise Unfit(
            f"gives {key} of type {_type(y)} and shape {tuple(y.shape)}: return a whole number for each object, its "
            "class, or numbers (N, D)"
        )
    if len(y) != len(x):
        raise Unfit(f"gives {len(x)} objects in {key[:-2]}_x and {len(y)} labels in {key}: return a label for each")
    if y.ndim == 1 and not y.is_floating_point():
        return y.long()
    if not y.isfinite().all():
        raise Unfit(f"gives {key} with values that are not finite: replace or leave them out")
    return y.reshape(len(y), -1).float()


def _same_targets(targets: dict[str, Tensor]) -> None:
    train = targets["train_y"]
    for key, y in targets.items():
        if y.shape[1:] != train.shape[1:]:
            kinds = [f"{one.shape[1]} numbers" if one.ndim > 1 else "a class" for one in (train, y)]
            raise Unfit(f"gives train_y with {kinds[0]} for each object and {key} with {kinds[1]}: make them alike")


def _classes(given: Any, labels: dict[str, Tensor]) -> int:
    """As given, else one more than the largest label; 0 of numbers."""
    if labels["train_y"].ndim > 1:
        if given is not None:
            raise Unfit(
                f"gives classes={given} and targets that are numbers: leave classes out, or return whole numbers"
            )
        return 0
    largest = max(int(y.max()) for y in labels.values())
    try:
        classes = largest + 1 if given is None else operator.index(given)
    except TypeError as error:
        raise Unfit(f"gives classes={given}: return a whole number") from error
    if classes < 2:
        raise Unfit(f"gives data of {classes} classes: return two or more")
    for key, y in labels.items():
        if y.min() < 0 or y.max() >= classes:
            raise Unfit(
                f"gives {key} with labels {y.min()} to {y.max()}: use 0 to {classes - 1}, or return more classes"
            )
    return classes


def _per_channel(key: str, given: Any, x: Tensor) -> tuple[float, ...] | None:
    if given is None:
        return None
    if x.dtype != torch.uint8:
        raise Unfit(f"gives {key}, which is for uint8 images: normalise the floats and leave it out")
    wanted = number(0, above=True) if key == "std" else number()
    values = tuple(given.tolist()) if isinstance(given, Tensor | np.ndarray) and given.ndim == 1 else given
    if not isinstance(values, tuple | list) or len(values) != x.shape[1] or not all(map(wanted.fits, values)):
        raise Unfit(f"gives {key}={given}: return {wanted.wanted} for each of {x.shape[1]} channels")
    return tuple(map(float, values))


def _type(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
