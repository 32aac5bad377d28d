"""history.jsonl: a line for every epoch. Each checkpoint holds a copy, from which a damaged file is made anew."""

import zlib
from typing import TYPE_CHECKING

from varnet.base.files import MOST, parsed

if TYPE_CHECKING:  # a report reads thousands of histories without torch
    from torch import Tensor

HISTORY = "history.jsonl"
LONGEST = 100_000  # bytes of a line, of which there are as many as epochs


class Copy:
    """The text so far, compressed; a line more costs as much at the end as at the beginning."""

    def __init__(self, text: bytes = b""):
        self._packer, self._parts, self.size = zlib.compressobj(), [], 0
        self.add(text)

    def add(self, text: bytes) -> None:
        if part := self._packer.compress(text):
            self._parts.append(part)
        self.size += len(text)

    def packed(self) -> "Tensor":
        """For a checkpoint."""
        import torch

        whole = b"".join(self._parts) + self._packer.copy().flush()
        return torch.frombuffer(bytearray(whole), dtype=torch.uint8)

    def text(self) -> bytes:
        return unpacked(self.packed(), self.size)


def unpacked(copy: "Tensor", most: int) -> bytes:
    """The text of a checkpoint's copy, if it is no longer than that."""
    opened = zlib.decompressobj()
    text = opened.decompress(copy.numpy().tobytes(), min(most, MOST))
    if not opened.eof:
        raise ValueError("its copy of the history is not whole")
    return text


def rows(text: bytes, number: str | None = "epoch") -> list[dict]:
    """The lines as far as they are whole, each a group with a larger number than the one before."""
    found: list[dict] = []
    for line in text.splitlines():
        try:
            row = parsed(line)
        except ValueError:
            break
        if not isinstance(row, dict) or (number and not _follows(row.get(number), found[-1:], number)):
            break
        found.append(row)
    return found


def _follows(value: object, before: list[dict], number: str) -> bool:
    last = before[0][number] if before else 0
    return isinstance(value, int) and not isinstance(value, bool) and value > last
