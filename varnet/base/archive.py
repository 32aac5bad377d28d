"""Archives of tensors, as torch.save writes them, that may be a stranger's: nothing in one is executed, and it takes no
more memory than it has bytes.

torch's own reader for weights alone (weights_only) executes no code, but it inflates what is compressed, and makes
arrays of any length where a file calls bytearray or a kind of tensor. torch.save compresses nothing and names nothing
but the kinds of tensors; an archive that does is not read.
"""

import io
import os
import pickle
import pickletools
import re
import stat
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch

NAMES = re.compile(  # that the description of an archive may have in it
    r"collections OrderedDict|torch \w+Storage|torch\._utils _rebuild_(tensor_v2|parameter)"
)


class Strange(ValueError):
    """An archive that torch.save has not written; the message says why."""


def dumped(state: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def loaded(path: Path) -> Any:
    """What the archive holds, its checksums tested; nearly any exception for a damaged one."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise Strange("it is no file")
    with open(path, "rb") as file:  # one and the same file for all that follows
        _check(file)
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)


def _check(file: BinaryIO) -> None:
    """That it unfolds to no more than its size, is whole, and names tensors alone."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise Strange("it has compressed parts, which varnet never writes")
        if sum(member.file_size for member in members) > size:
            raise Strange("its parts say that they are larger than the file")
        if (damaged := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"wrong checksum of {damaged}")
        for name in archive.namelist():
            if name.endswith(".pkl"):
                _check_names(archive.read(name))


def _check_names(description: bytes) -> None:
    """A pickle names what it calls; torch.save's protocol does so in one way."""
    for op, named, _ in pickletools.genops(description):
        if op.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            raise pickle.UnpicklingError("it names more than tensors")
        if op.name == "GLOBAL" and not NAMES.fullmatch(named):
            raise pickle.UnpicklingError(f"it names {named}")
