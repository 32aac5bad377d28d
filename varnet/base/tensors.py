"""Tensors in a safetensors file: numbers and their names, no code. What is in it is known, and compared with what is
wanted, before anything of that size is allocated.

safetensors is imported where it is used.
"""

import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from varnet.base.files import write_atomically
from varnet.errors import one_line

Shapes = Mapping[str, tuple[int, ...]]
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1}  # bytes of a number of each type that is read
HEAD = 1_000_000  # bytes of a description; that of a large network has about 10,000
HALVES = (torch.float16, torch.bfloat16)


class Unreadable(ValueError):
    """A file that is not what was wanted; the message continues `a file that ...`."""


def save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """The whole file or none."""
    from safetensors.torch import save as serialized

    write_atomically(path, serialized({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}))


def load(path: Path, wanted: Shapes) -> dict[str, Tensor]:
    """The tensors of a file, once it is known to hold these names and shapes and nothing else."""
    from safetensors import SafetensorError, safe_open

    if (found := shapes(path)) != {name: tuple(shape) for name, shape in wanted.items()}:
        raise Unreadable(f"does not hold what its network has ({_difference(found, wanted)})")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in wanted}
    except (SafetensorError, RuntimeError) as error:
        raise Unreadable(f"is damaged ({one_line(error)[:200]})") from error


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """What a file holds by its own description, which has to account for every byte of it."""
    try:
        with open(path, "rb") as file:
            return _described(file)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"has a description that cannot be read ({one_line(error)[:200]})") from error


def _described(file: BinaryIO) -> dict[str, tuple[int, ...]]:
    size = _regular(file)
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(HEAD, size - 8):
        raise Unreadable(f"has no description of at most {HEAD:,} bytes")
    head = json.loads(file.read(length).decode())
    head.pop("__metadata__", None)
    if sum(_bytes(each) for each in head.values()) != size - 8 - length:
        raise Unreadable("is not as long as its description says")
    return {name: tuple(each["shape"]) for name, each in head.items()}


def _regular(file: BinaryIO) -> int:
    """Bytes of what is a file, and no pipe or device."""
    about = os.fstat(file.fileno())
    if not stat.S_ISREG(about.st_mode):
        raise Unreadable("is no file")
    return about.st_size


def _bytes(each: dict) -> int:
    """Of one tensor."""
    if each["dtype"] not in SIZES:
        raise Unreadable(f"holds numbers of type {each['dtype']}: {', '.join(SIZES)} are known")
    if not all(type(n) is int and n >= 0 for n in each["shape"]):
        raise Unreadable("has a tensor of no possible shape")
    return SIZES[each["dtype"]] * math.prod(each["shape"])


def _difference(found: Shapes, wanted: Shapes) -> str:
    return "; ".join(_differences(found, wanted))


def _differences(found: Shapes, wanted: Shapes) -> Iterator[str]:
    """At most one of each kind."""
    if missing := [name for name in wanted if name not in found]:
        yield f"{missing[0]} is missing"
    if strange := [name for name in found if name not in wanted]:
        yield f"there is no {strange[0]}"
    for name in [name for name in wanted if name in found and found[name] != tuple(wanted[name])][:1]:
        yield f"{name} is {found[name]}, not {tuple(wanted[name])}"


def halved(tensor: Tensor) -> Tensor:
    """In half precision, in the type that loses less: float16 has the finer steps, bfloat16 the wider range."""
    return min((tensor.to(kind) for kind in HALVES), key=lambda half: _lost(tensor, half))


def _lost(tensor: Tensor, half: Tensor) -> float:
    """Mean square of the part of a number that is lost: 1 for one that vanishes, infinite for one that overflows."""
    back = half.to(tensor.dtype)
    error = torch.where(tensor == back, 0.0, (tensor - back).abs() / tensor.abs())
    return float(error.nan_to_num(math.inf).double().square().mean())
