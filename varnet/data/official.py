"""The official files of a dataset: sizes, MD5 sums, and their bytes <-> arrays (no pickles).

Every source, whatever its own format, is turned into the bytes of these files and verified here, so that one set of
sums guards them all. Arrays are uint8: images (N, height, width, channels); labels (N,), or (N, labellings).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from varnet.errors import SourceError

Arrays = dict[str, np.ndarray]  # train_x, train_y, test_x, test_y
Files = dict[str, bytes]


@dataclass(frozen=True)
class OfficialFile:
    size: int
    md5: str


@dataclass(frozen=True)
class Official:
    files: dict[str, OfficialFile]
    decode: Callable[[Files], Arrays]
    encode: Callable[[Arrays], Files]

    @property
    def size(self) -> int:
        """Bytes of all files; their arrays have no more."""
        return sum(file.size for file in self.files.values())

    def verify(self, files: Files) -> None:
        """Raise SourceError, naming the file, unless every official file is there with its official MD5 sum."""
        for name, official in self.files.items():
            if name not in files:
                raise SourceError(f"{name} is missing")
            _verify(name, files[name], official)


def _verify(name: str, data: bytes, official: OfficialFile) -> None:
    if len(data) != official.size:
        amount = "more than the" if len(data) > official.size else f"{len(data):,} of"
        raise SourceError(f"{name} has {amount} {official.size:,} bytes")
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if md5 != official.md5:
        raise SourceError(f"{name} has MD5 {md5}, the official file has {official.md5}")
