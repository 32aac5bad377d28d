"""The data folder: which one, whether it can be written to, and one process at a time in it."""

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from varnet.base.files import appending
from varnet.errors import DataError

log = logging.getLogger(__name__)
SCRATCH = ".varnet_fetch_"
ABANDONED = 24 * 3600  # seconds after which the scratch folder of a killed process may be removed


def data_folder(data_dir: str | os.PathLike | None = None) -> Path:
    """The argument, else the environment variable VARNET_DATA, else `data`."""
    try:
        folder = Path(data_dir or os.environ.get("VARNET_DATA") or "data").expanduser()
        is_file = folder.exists() and not folder.is_dir()
    except (OSError, ValueError, RuntimeError) as error:  # a name that is too long, a home that nobody has
        raise DataError(f"data_dir={data_dir} cannot be used ({error}): name another folder") from error
    if is_file:
        raise DataError(f"data_dir={folder} is a file: name a folder (data_dir=FOLDER or the variable VARNET_DATA).")
    return folder


def why_unwritable(folder: Path) -> str | None:
    """None if files can be created in the folder, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")
    except OSError as error:
        return error.strerror or str(error)
    return None


@contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """A folder for downloads that is gone afterwards; in the system's temporary folder where `parent` is None."""
    if parent is not None:
        _remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=parent, ignore_cleanup_errors=True) as scratch:
        yield Path(scratch)


def _remove_abandoned(parent: Path) -> None:
    for left in parent.glob(SCRATCH + "*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > ABANDONED:
                shutil.rmtree(left)


@contextmanager
def one_process_at_a_time(folder: Path, name: str) -> Iterator[None]:
    """So that two runs that start together fetch once. Where locks do not work, both fetch, which does no harm."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(appending(folder / f".varnet_{name}.lock"))
            _lock(file, name)
        except (ImportError, OSError) as error:  # no fcntl on Windows, a file system without locks, another user's file
            log.info("%s: fetching without a lock (%s)", name, error)
        yield  # closing the file releases the lock, as does the end of the process


def _lock(file: BinaryIO, name: str) -> None:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log.info("%s: waiting for another process that is fetching it", name)
        fcntl.flock(file, fcntl.LOCK_EX)
