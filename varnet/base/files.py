"""Files that are whole or not there, and writing that follows no link."""

import contextlib
import errno
import json
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

UNFINISHED = ".part"  # how the name of a file ends that is being written
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # 0 on Windows


def write_atomically(path: Path, content: bytes | str) -> None:
    """The file is the old one or the new one, at any moment and if the disk is full.

    Written under a name that nobody could foresee and that is not there yet: a link planted in a folder leads nowhere.
    """
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}{UNFINISHED}")
    opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(opened, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: object, indent: int | None = 2) -> None:
    write_atomically(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")


def appending(path: Path) -> BinaryIO:
    """The file, made where it is not there, to be written at its end. A link, a pipe or a device by that name is
    refused."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK | getattr(os, "O_NONBLOCK", 0)
    try:
        opened = os.open(path, flags, 0o666)
        if stat.S_ISREG(os.fstat(opened).st_mode):
            return open(opened, "ab")
        os.close(opened)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link; a pipe that nobody reads
            raise
    raise OSError(errno.ELOOP, "a link or a device stands where a file is to be written", str(path))


def remove_unfinished(folder: Path) -> None:
    """What a killed process left half written, in a folder that nobody else writes into."""
    for part in folder.glob(f"*{UNFINISHED}"):
        with contextlib.suppress(OSError):
            part.unlink()
