"""torchvision's downloads and readers, turned back into the official bytes.

torchvision's CIFAR files are pickles. They are opened only by torchvision, and only after the MD5 sums it publishes for
each of them (or for the archive they come from) have been checked; see `_check_pickles`.
"""

import socket
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from varnet.data.official import SPECS, Files
from varnet.errors import SourceError

TIMEOUT = 10.0  # seconds without an answer before a download counts as failed

# CIFAR-100's coarse label of each fine label (https://www.cs.toronto.edu/~kriz/cifar.html); torchvision reads only fine
# fmt: off
COARSE = np.array([
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0,
    11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19,
    18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
], np.uint8)
# fmt: on


def download(name: str, scratch: Path) -> Files:
    with _timeout(TIMEOUT):
        return _read(name, scratch, download=True)


def read_pickles(name: str, folder: Path) -> Files | None:
    """torchvision's `cifar-*-py*` folder inside `folder`."""
    dataset = _dataset(name)
    if not (folder / dataset.base_folder).exists():
        return None
    _check_pickles(dataset, folder)
    return _read(name, folder, download=False)


def read_pickle_archive(name: str, folder: Path, scratch: Path) -> Files | None:
    from torchvision.datasets.utils import check_integrity, extract_archive

    dataset = _dataset(name)
    archive = folder / dataset.filename
    if not archive.exists():
        return None
    if not check_integrity(archive, dataset.tgz_md5):
        raise SourceError(f"does not have the MD5 {dataset.tgz_md5} of the official archive")
    extract_archive(str(archive), str(scratch))
    return read_pickles(name, scratch)


def _dataset(name: str) -> type:
    from torchvision import datasets  # takes a second: only where the cache does not serve

    return getattr(datasets, name.upper())


def _check_pickles(dataset: type, folder: Path) -> None:
    """Name the file that torchvision's own check, which is repeated by its constructor, would only call corrupted."""
    from torchvision.datasets.utils import check_integrity

    meta = [dataset.meta["filename"], dataset.meta["md5"]]
    for filename, md5 in [*dataset.train_list, *dataset.test_list, meta]:
        if not check_integrity(folder / dataset.base_folder / filename, md5):
            raise SourceError(f"{filename} is missing or does not have the MD5 {md5} of the official file")


def _read(name: str, root: Path, download: bool) -> Files:
    arrays = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, about how the official pickles were written
        for split in ("train", "test"):
            data = _dataset(name)(str(root), train=split == "train", download=download)
            images, labels = np.asarray(data.data, np.uint8), np.asarray(data.targets, np.uint8)
            arrays[f"{split}_x"] = images if images.ndim == 4 else images[..., None]
            arrays[f"{split}_y"] = np.stack([COARSE[labels], labels], axis=1) if name == "cifar100" else labels
    return SPECS[name].encode(arrays)


@contextmanager
def _timeout(seconds: float):
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
