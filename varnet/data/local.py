"""Official files that already lie in the data folder: plain, gzipped, or still in the official binary archive.

A reader returns None where nothing of the dataset is there, and raises SourceError where it is but cannot be used.
"""

import gzip
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path

from varnet.data.official import Files, Official
from varnet.errors import SourceError

UNREADABLE = (OSError, EOFError, zlib.error, tarfile.TarError)


def read_folder(folder: Path, official: Official) -> Files | None:
    found = {name: path for name in official.files if (path := _plain_or_gz(folder / name))}
    if not found and (folder.is_dir() or not folder.exists()):
        return None
    if missing := [name for name in official.files if name not in found]:
        raise SourceError(f"{missing[0]} is missing")
    return {name: _read(path, official.files[name].size) for name, path in found.items()}


def read_archive(path: Path, official: Official) -> Files | None:
    if not path.exists():
        return None
    return read_members(path, official.files, limit=max(file.size for file in official.files.values()))


def read_members(archive: Path, names: Collection[str], limit: int) -> Files:
    """The named members of a .tar.gz, matched without their folders, straight into memory: nothing is extracted."""
    files = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                name = member.name.rsplit("/", 1)[-1]
                if name in names and (content := tar.extractfile(member)):  # None: no file but a folder
                    files[name] = content.read(limit + 1)
    except UNREADABLE as error:
        raise SourceError(f"cannot be read: {error}") from error
    if missing := [name for name in names if name not in files]:
        raise SourceError(f"does not hold {missing[0]}")
    return files


def _plain_or_gz(path: Path) -> Path | None:
    return next((p for p in (path, path.with_name(path.name + ".gz")) if p.exists()), None)


def _read(path: Path, size: int) -> bytes:
    """At most one byte more than expected: enough to see that a file is too long, too little to fill the memory."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
            return stream.read(size + 1)
    except UNREADABLE as error:
        raise SourceError(f"{path.name} cannot be read: {error}") from error
