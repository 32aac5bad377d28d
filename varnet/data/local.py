"""Official files that already lie in the data folder: plain, gzipped, or still in the official binary archive.

A reader returns None where nothing of the dataset is there, and raises SourceError where it is but cannot be used.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path

from varnet.base.files import reading
from varnet.data.official import Files, Official
from varnet.errors import SourceError

UNREADABLE = (OSError, EOFError, zlib.error, tarfile.TarError, OverflowError)  # the last: a size beyond all sizes
UNPACKED = 2**29  # bytes of a whole archive, the largest of which has 185 MB


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
    """The named members of a .tar.gz, matched without their folders, straight into memory: nothing is extracted.

    limit: bytes of a member. What tarfile reads for itself, long names and pax headers, is bounded too.
    """
    files = {}
    try:
        with reading(archive) as packed, tarfile.open(fileobj=_Unpacked(packed, limit), mode="r:") as tar:
            for member in tar:
                name = member.name.rsplit("/", 1)[-1]
                if name in names and (content := tar.extractfile(member)):  # None: no file but a folder
                    files[name] = content.read(limit + 1)
    except UNREADABLE as error:
        raise SourceError(f"cannot be read: {error}") from error
    if missing := [name for name in names if name not in files]:
        raise SourceError(f"does not hold {missing[0]}")
    return files


class _Unpacked(gzip.GzipFile):
    """What is in an archive, as far as an honest one goes: memory and time are bounded, however well it is packed."""

    def __init__(self, packed: io.BufferedIOBase, limit: int) -> None:
        super().__init__(fileobj=packed, mode="rb")
        self.most = limit + tarfile.RECORDSIZE  # of one read

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= self.most:
            raise tarfile.ReadError(f"a part of it claims more than {self.most:,} bytes")
        self._check(self.tell() + size)
        return super().read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            if offset < self.tell() - 1:  # tarfile looks at a byte again; a member of negative size leads in a circle
                raise tarfile.ReadError("its parts overlap")
            self._check(offset)
        return super().seek(offset, whence)

    def _check(self, end: int) -> None:
        if end > UNPACKED:
            raise tarfile.ReadError(f"it has more than {UNPACKED:,} bytes")


def _plain_or_gz(path: Path) -> Path | None:
    return next((p for p in (path, path.with_name(path.name + ".gz")) if p.exists()), None)


def _read(path: Path, size: int) -> bytes:
    """At most one byte more than expected: enough to see that a file is too long, too little to fill the memory."""
    try:
        with reading(path) as file:
            stream = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            return stream.read(size + 1)
    except UNREADABLE as error:
        raise SourceError(f"{path.name} cannot be read: {error}") from error
