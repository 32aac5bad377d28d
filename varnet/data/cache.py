"""One uint8 file per dataset: a line of JSON, then the four arrays back to back. Read in a tenth of a second.

It appears whole or not at all (written in a scratch folder, then moved), and a CRC-32 tells whether it is still whole.
"""

import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from varnet.base.files import reading
from varnet.data.official import Arrays

FORMAT = "varnet data 1"
LONGEST_HEADER = 4096
CHUNK = 8 * 2**20
KEYS = ("train_x", "train_y", "test_x", "test_y")


class DamagedCache(Exception):
    """The file is there but is not what was written; the message says why."""


@dataclass(frozen=True)
class Cached:
    arrays: Arrays
    source: str
    path: Path | None  # None where the folder could not be written to


def read(path: Path, name: str, most: int) -> Cached:
    """Raises FileNotFoundError or DamagedCache. most: bytes that the dataset can have; no file makes us read more."""
    try:
        with reading(path) as file:
            header = _header(file.readline(LONGEST_HEADER), name)
            shapes = [header["shapes"][key] for key in KEYS]
            sizes = [prod(shape) for shape in shapes]
            left = os.fstat(file.fileno()).st_size - file.tell()
            if sum(sizes) > most:
                raise DamagedCache(f"it claims {sum(sizes):,} bytes, and {name} has no more than {most:,}")
            if left != sum(sizes):
                raise DamagedCache(f"it has {left:,} of {sum(sizes):,} bytes")
            payload = np.fromfile(file, np.uint8, sum(sizes))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedCache(f"it cannot be read: {error.strerror}") from error
    if len(payload) != sum(sizes) or zlib.crc32(payload.data) != header["crc32"]:
        raise DamagedCache("its checksum is wrong")
    parts = np.split(payload, np.cumsum(sizes)[:-1])
    return Cached({k: p.reshape(s) for k, p, s in zip(KEYS, parts, shapes, strict=True)}, header["source"], path)


def write(path: Path, name: str, arrays: Arrays, source: str, scratch: Path, advance: Callable[[int], None]) -> None:
    """Written in `scratch`, a folder on the same file system, then moved; `advance` is told the bytes written."""
    parts = [np.ascontiguousarray(arrays[key]).reshape(-1) for key in KEYS]
    crc = 0
    for part in parts:
        crc = zlib.crc32(part.data, crc)
    shapes = {key: arrays[key].shape for key in KEYS}
    header = json.dumps({"format": FORMAT, "dataset": name, "source": source, "crc32": crc, "shapes": shapes})
    unfinished = scratch / path.name
    with open(unfinished, "wb") as file:
        file.write(header.encode() + b"\n")
        for part in parts:
            for start in range(0, len(part), CHUNK):
                advance(file.write(part[start : start + CHUNK].data))
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def _header(line: bytes, name: str) -> dict:
    try:
        header = json.loads(line)
        shapes = [header["shapes"][key] for key in KEYS]
        fits = header["format"] == FORMAT and header["dataset"] == name and "crc32" in header
        fits &= isinstance(header["source"], str) and all(isinstance(n, int) and n >= 0 for s in shapes for n in s)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DamagedCache("it does not begin with varnet's header") from error
    if not fits:
        raise DamagedCache(f"it holds something else than {FORMAT!r} of {name}")
    return header
