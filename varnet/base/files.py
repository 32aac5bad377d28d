"""Files that are whole or not there, writing that follows no link, and reading that ends. What the file system refuses
is tried again for a while."""

import contextlib
import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

T = TypeVar("T")

UNFINISHED = ".part"  # how the name of a file ends that is being written
MOST = 2**28  # bytes that are read of a file in which a run writes text
PAUSES = (0.1, 1.0)  # seconds between attempts
PASSING = frozenset(  # what a file system that is shared, full or overloaded says, and takes back
    getattr(errno, name)
    for name in (
        "EIO", "EROFS", "ENOSPC", "EDQUOT", "ESTALE", "EMFILE", "ENFILE", "EACCES", "EAGAIN", "EBUSY", "ETIMEDOUT",
        "ENOLCK", "EREMOTEIO",
    )
    if hasattr(errno, name)
)  # fmt: skip
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # 0 on Windows
_NO_WAIT, _BINARY = getattr(os, "O_NONBLOCK", 0), getattr(os, "O_BINARY", 0)


def again(operation: Callable[[], T]) -> T:
    """What the operation gives, tried again if the file system refuses it for a reason that may pass."""
    for pause in PAUSES:
        try:
            return operation()
        except OSError as error:
            if error.errno not in PASSING:
                raise
            time.sleep(pause)
    return operation()


def write_atomically(path: Path, content: bytes | str) -> None:
    """The file is the old one or the new one, at any moment and if the disk is full."""
    again(lambda: _write_atomically(path, content.encode() if isinstance(content, str) else content))


def _write_atomically(path: Path, content: bytes) -> None:
    """Written under a name that nobody could foresee and that is not there yet: a link planted in a folder leads
    nowhere."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}{UNFINISHED}")
    opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY, 0o666)
    try:
        try:
            _write(opened, content)
            os.fsync(opened)
        finally:
            os.close(opened)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _write(opened: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(opened, left) :]


def append(path: Path, content: bytes) -> None:
    """At the end of the file, whole; what an attempt has left is taken away by the next."""
    start: int | None = None

    def attempt() -> None:
        nonlocal start
        with appending(path) as file:
            if start is None:
                start = os.fstat(file.fileno()).st_size
            else:
                os.ftruncate(file.fileno(), start)
            _write(file.fileno(), content)

    again(attempt)


def replace(source: Path, target: Path) -> None:
    again(lambda: os.replace(source, target))


def write_json(path: Path, content: object, indent: int | None = 2) -> None:
    write_atomically(path, as_json(content, indent))


def as_json(content: object, indent: int | None = 2) -> bytes:
    return (json.dumps(content, indent=indent, ensure_ascii=False) + "\n").encode()


def parsed(text: bytes) -> object:
    """What a JSON text says; whatever is wrong with it, a ValueError."""
    try:
        return json.loads(text.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def content(path: Path, most: int = MOST) -> bytes:
    """Of a file of a modest size. A pipe, which one would wait for, and a device, which has no end, are an OSError."""

    def attempt() -> bytes:
        with reading(path, most) as file:
            return file.read()

    return again(attempt)


def reading(path: Path, most: int | None = None) -> BinaryIO:
    """A file, of at most so many bytes, to be read. A pipe, a device or a folder by that name is refused: one may never
    answer, another never end."""
    opened = os.open(path, os.O_RDONLY | _NO_WAIT | _BINARY)
    try:
        about = os.fstat(opened)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "is no file but a folder, a pipe or a device", str(path))
        if most is not None and about.st_size > most:
            raise OSError(errno.EFBIG, f"is larger than {most:,} bytes", str(path))
        return open(opened, "rb")
    except BaseException:
        os.close(opened)
        raise


def appending(path: Path) -> BinaryIO:
    """The file, made where it is not there, to be written at its end. A link, a pipe or a device by that name is
    refused."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK | _NO_WAIT
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
