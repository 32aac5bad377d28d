"""torchvision's downloads and readers, turned back into the official bytes.

torchvision's CIFAR files are pickles. They are opened only by torchvision, and only after the MD5 sums it publishes for
each of them (or for the archive they come from) have been checked; see `_check_pickles`.
"""

import os
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from varnet.base.files import reading
from varnet.data.official import Files, Official
from varnet.errors import SourceError

LARGEST = 2**29  # bytes of a file whose sum is looked at; the largest archive has 171 MB
TIMEOUT = 10.0  # seconds without an answer before a download counts as failed

ToLabels = Callable[[np.ndarray], np.ndarray]  # torchvision's labels -> those of the official files


def download(dataset: str, scratch: Path, official: Official, labels: ToLabels | None = None) -> Files:
    with _timeout(TIMEOUT):
        return _read(dataset, scratch, official, labels, download=True)


def read_pickles(dataset: str, folder: Path, official: Official, labels: ToLabels | None = None) -> Files | None:
    """torchvision's `cifar-*-py*` folder inside `folder`."""
    reader = reader_of(dataset)
    if not (folder / reader.base_folder).exists():
        return None
    _check_pickles(reader, folder)
    return _read(dataset, folder, official, labels, download=False)


def read_pickle_archive(
    dataset: str, folder: Path, scratch: Path, official: Official, labels: ToLabels | None = None
) -> Files | None:
    from torchvision.datasets.utils import check_integrity, extract_archive

    reader = reader_of(dataset)
    archive = folder / reader.filename
    if not archive.exists():
        return None
    _check_size(archive)
    if not check_integrity(archive, reader.tgz_md5):
        raise SourceError(f"does not have the MD5 {reader.tgz_md5} of the official archive")
    extract_archive(str(archive), str(scratch))
    return read_pickles(dataset, scratch, official, labels)


def reader_of(dataset: str) -> Any:
    """torchvision's class, e.g. CIFAR10."""
    from torchvision import datasets  # takes a second: only where the cache does not serve

    return getattr(datasets, dataset)


def _check_pickles(reader: Any, folder: Path) -> None:
    """Name the file that torchvision's own check, which is repeated by its constructor, would only call corrupted."""
    from torchvision.datasets.utils import check_integrity

    meta = [reader.meta["filename"], reader.meta["md5"]]
    for filename, md5 in [*reader.train_list, *reader.test_list, meta]:
        path = folder / reader.base_folder / filename
        if path.exists():
            _check_size(path)
        if not check_integrity(path, md5):
            raise SourceError(f"{filename} is missing or does not have the MD5 {md5} of the official file")


def _check_size(path: Path) -> None:
    """Before all of it is read for its sum."""
    with reading(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > LARGEST:
            raise SourceError(f"{path.name} has {size:,} bytes, more than {LARGEST:,}")


def _read(dataset: str, root: Path, official: Official, labels: ToLabels | None, download: bool) -> Files:
    arrays = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, about how the official pickles were written
        for split in ("train", "test"):
            data = reader_of(dataset)(str(root), train=split == "train", download=download)
            images, targets = np.asarray(data.data, np.uint8), np.asarray(data.targets, np.uint8)
            arrays[f"{split}_x"] = images if images.ndim == 4 else images[..., None]
            arrays[f"{split}_y"] = targets if labels is None else labels(targets)
    return official.encode(arrays)


@contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
