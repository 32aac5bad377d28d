"""The official files of MNIST and CIFAR: sizes, MD5 sums, and their bytes <-> arrays (no pickles).

Every source, whatever its own format, is turned into the bytes of these files and verified here, so that one set of
sums guards them all. Arrays are uint8: images (N, height, width, channels); labels (N,), or of CIFAR-100 (N, 2): coarse
and fine.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from varnet.errors import SourceError

Arrays = dict[str, np.ndarray]  # train_x, train_y, test_x, test_y
Files = dict[str, bytes]


@dataclass(frozen=True)
class OfficialFile:
    size: int
    md5: str


@dataclass(frozen=True)
class Spec:
    files: dict[str, OfficialFile]
    decode: Callable[[Files], Arrays]
    encode: Callable[[Arrays], Files]


def verify(files: Files, spec: Spec) -> None:
    """Raise SourceError, naming the file, unless every official file is there with its official MD5 sum."""
    for name, official in spec.files.items():
        if name not in files:
            raise SourceError(f"{name} is missing")
        if len(files[name]) != official.size:
            amount = "more than the" if len(files[name]) > official.size else f"{len(files[name]):,} of"
            raise SourceError(f"{name} has {amount} {official.size:,} bytes")
        md5 = hashlib.md5(files[name], usedforsecurity=False).hexdigest()
        if md5 != official.md5:
            raise SourceError(f"{name} has MD5 {md5}, the official file has {official.md5}")


def _from_idx(data: bytes) -> np.ndarray:
    # idx: two zero bytes, type (8 = uint8), number of dimensions, then each dimension as a big-endian int32
    dims = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(dims)


def _to_idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()


def _decode_mnist(files: Files) -> Arrays:
    arrays = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        arrays[f"{split}_x"] = _from_idx(files[f"{prefix}-images-idx3-ubyte"])[..., None]
        arrays[f"{split}_y"] = _from_idx(files[f"{prefix}-labels-idx1-ubyte"])
    return arrays


def _encode_mnist(arrays: Arrays) -> Files:
    files = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        files[f"{prefix}-images-idx3-ubyte"] = _to_idx(arrays[f"{split}_x"][..., 0])
        files[f"{prefix}-labels-idx1-ubyte"] = _to_idx(arrays[f"{split}_y"])
    return files


def _from_records(data: bytes, labels: int) -> tuple[np.ndarray, np.ndarray]:
    # record: the label bytes, then the red, the green and the blue plane of 32 x 32 bytes each
    records = np.frombuffer(data, np.uint8).reshape(-1, labels + 3072)
    images = records[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, records[:, :labels].squeeze(1) if labels == 1 else records[:, :labels]


def _to_records(images: np.ndarray, labels: np.ndarray) -> bytes:
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), 3072)
    return np.concatenate([labels.reshape(len(labels), -1), planes], axis=1).tobytes()


def _decode_cifar10(files: Files) -> Arrays:
    x, y = _from_records(b"".join(files[f"data_batch_{i}.bin"] for i in range(1, 6)), labels=1)
    test_x, test_y = _from_records(files["test_batch.bin"], labels=1)
    return {"train_x": x, "train_y": y, "test_x": test_x, "test_y": test_y}


def _encode_cifar10(arrays: Arrays) -> Files:
    parts = zip(np.array_split(arrays["train_x"], 5), np.array_split(arrays["train_y"], 5), strict=True)
    files = {f"data_batch_{i}.bin": _to_records(x, y) for i, (x, y) in enumerate(parts, start=1)}
    return files | {"test_batch.bin": _to_records(arrays["test_x"], arrays["test_y"])}


def _decode_cifar100(files: Files) -> Arrays:
    x, y = _from_records(files["train.bin"], labels=2)
    test_x, test_y = _from_records(files["test.bin"], labels=2)
    return {"train_x": x, "train_y": y, "test_x": test_x, "test_y": test_y}


def _encode_cifar100(arrays: Arrays) -> Files:
    return {f"{split}.bin": _to_records(arrays[f"{split}_x"], arrays[f"{split}_y"]) for split in ("train", "test")}


_MNIST = {
    "train-images-idx3-ubyte": OfficialFile(47_040_016, "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte": OfficialFile(60_008, "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte": OfficialFile(7_840_016, "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte": OfficialFile(10_008, "27ae3e4e09519cfbb04c329615203637"),
}
_CIFAR10 = {
    "data_batch_1.bin": OfficialFile(30_730_000, "5dd7e06a14cb22eb9f671a540d1b7c25"),
    "data_batch_2.bin": OfficialFile(30_730_000, "5ea93a67294ea407fff1d09f752e9692"),
    "data_batch_3.bin": OfficialFile(30_730_000, "942cd6a4bcdd0dd3c604fbe906cb4421"),
    "data_batch_4.bin": OfficialFile(30_730_000, "ae636b3ba5c66a11e91e8cb52e771fcb"),
    "data_batch_5.bin": OfficialFile(30_730_000, "53f37980c15c3d472c316c40844f3f0d"),
    "test_batch.bin": OfficialFile(30_730_000, "803d5f7f4d78ea53de84dbe85f74fb6d"),
}
_CIFAR100 = {
    "train.bin": OfficialFile(153_700_000, "6172c7755cfe09b2fe270c85cebc1b15"),
    "test.bin": OfficialFile(30_740_000, "4499cfba6c016c1be1438163640a0898"),
}

SPECS = {
    "mnist": Spec(_MNIST, _decode_mnist, _encode_mnist),
    "cifar10": Spec(_CIFAR10, _decode_cifar10, _encode_cifar10),
    "cifar100": Spec(_CIFAR100, _decode_cifar100, _encode_cifar100),
}
