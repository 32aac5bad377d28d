"""One writer a folder, also where the folder is deleted under it and made anew by another."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from varnet.base.files import again, appending
from varnet.errors import ConfigError, FolderLost

NAME = ".lock"
ATTEMPTS = 10  # to lock a folder that others delete meanwhile
_held: dict[Path, BinaryIO | None] = {}  # folder -> the file that this process has locked last


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, made where it is not there, for this process alone."""
    with contextlib.ExitStack() as stack:
        for _ in range(ATTEMPTS):
            again(lambda: folder.mkdir(parents=True, exist_ok=True))
            with contextlib.suppress(FileNotFoundError):  # deleted since the line above
                file = stack.enter_context(again(lambda: appending(folder / NAME)))
                _lock(file, folder)
                if _is_at(file, folder):
                    break
        else:
            raise ConfigError(f"{folder} is being deleted by another process: wait for it, or stop it")
        stack.callback(_held.__setitem__, folder, _held.get(folder))
        _held[folder] = file
        yield


def check_held(folder: Path) -> None:
    """Before a file of the folder is written: it may have been deleted, and be another's by now."""
    file = _held.get(folder)
    if file is not None and not _is_at(file, folder):
        raise FolderLost(f"{folder} was deleted or replaced while this run wrote into it: start it again")


def _lock(file: BinaryIO, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no locks on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(f"{folder} is being written by another process: wait for it, or stop it") from error


def _is_at(file: BinaryIO, folder: Path) -> bool:
    """Whether the file that is open is the one that the folder has."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(folder / NAME, follow_symlinks=False))
    except FileNotFoundError:
        return False
