"""A data folder in which a stranger has put something: memory and time stay bounded, and nothing is waited for."""

import gzip
import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.data.tiny_data import fetch, install_tiny, tiny_arrays, write_files, write_tar
from varnet.data import local, vision
from varnet.data.cache import FORMAT, KEYS
from varnet.data.local import read_members
from varnet.errors import DataError, SourceError

TERABYTE = 2**40
FEW = 10_000  # bytes of the largest member that is wanted
MANY = 2_000_000  # bytes of what is unpacked in vain unless it is refused


@pytest.fixture
def data(monkeypatch, tmp_path) -> Path:
    """A data folder with tiny MNIST files, without a way to fetch others."""

    def no_network(*_: object) -> None:
        raise OSError("no network")

    _, files = install_tiny(monkeypatch, "mnist")
    install_tiny(monkeypatch, "cifar10")
    monkeypatch.setattr(vision, "download", no_network)
    monkeypatch.setenv("PATH", "")
    write_files(tmp_path / "mnist", files)
    return tmp_path


def sparse(path: Path, begin: bytes = b"") -> None:
    path.write_bytes(begin)
    os.truncate(path, TERABYTE)


def header(size: int) -> bytes:
    shapes = {key: [size if key == "train_x" else 1] for key in KEYS}
    about = {"format": FORMAT, "dataset": "mnist", "source": "", "crc32": 0, "shapes": shapes}
    return json.dumps(about).encode() + b"\n"


def honest_sparse(path: Path) -> None:
    """As large as it says."""
    size = TERABYTE - 3 - len(header(TERABYTE))
    sparse(path, header(size))


BAD_CACHES: dict[Callable[[Path], None], str] = {
    os.mkfifo: "is no file",
    sparse: "it does not begin with varnet's header",
    honest_sparse: "bytes, and mnist has no more than",
    lambda path: path.symlink_to("/dev/zero"): "is no file",
    lambda path: path.write_bytes(b"[" * 4000 + b"\n"): "it does not begin with varnet's header",
}


@pytest.mark.parametrize("put", BAD_CACHES)
def test_what_stands_in_the_place_of_a_cache_is_made_anew(data, caplog, put):
    put(data / "varnet_mnist.bin")
    assert np.array_equal(fetch("mnist", data).arrays["train_x"], tiny_arrays("mnist")["train_x"])
    assert [BAD_CACHES[put] in record.message for record in caplog.records] == [True]
    assert (data / "varnet_mnist.bin").stat().st_size < MANY


def test_a_pipe_in_the_place_of_the_lock_is_not_waited_for(data):
    os.mkfifo(data / ".varnet_mnist.lock")
    assert fetch("mnist", data).source == str(data / "mnist")


@pytest.mark.parametrize("put", [os.mkfifo, sparse])
@pytest.mark.parametrize(
    "name, place",
    [
        ("mnist", "mnist/train-images-idx3-ubyte"),
        ("cifar10", "cifar-10-batches-bin/data_batch_1.bin"),
        ("cifar10", "cifar-10-binary.tar.gz"),
        ("cifar10", "cifar-10-batches-py/data_batch_1"),
        ("cifar10", "cifar-10-python.tar.gz"),
    ],
)
def test_what_stands_in_the_place_of_an_official_file_is_refused(data, put, name, place):
    (data / place).parent.mkdir(exist_ok=True)
    (data / place).unlink(missing_ok=True)
    put(data / place)
    with pytest.raises(DataError) as caught:
        fetch(name, data)
    assert place.partition("/")[0] in str(caught.value) and "\n" not in str(caught.value)


# ---- archives


def member(kind: bytes, size: int, content: bytes) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) + content


def long_name(kind: bytes) -> bytes:
    """A header whose name alone would fill the memory."""
    return member(kind, MANY, bytes(-(-MANY // 512) * 512)) + member(tarfile.REGTYPE, 0, b"")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE])
def test_a_name_of_an_archive_fills_no_memory(tmp_path, kind):
    path = tmp_path / "a.tgz"
    path.write_bytes(gzip.compress(long_name(kind), 1))
    tracemalloc.start()
    with pytest.raises(SourceError, match="a part of it claims more than"):
        read_members(path, ["x"], FEW)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MANY / 5


def test_an_archive_that_unpacks_without_end_is_given_up(tmp_path, monkeypatch):
    write_tar(tmp_path / "a.tgz", {"other": bytes(MANY), "wanted": b"content"}, "package")
    assert read_members(tmp_path / "a.tgz", ["wanted"], FEW) == {"wanted": b"content"}
    monkeypatch.setattr(local, "UNPACKED", MANY // 2)
    with pytest.raises(SourceError, match=f"it has more than {MANY // 2:,} bytes"):
        read_members(tmp_path / "a.tgz", ["wanted"], FEW)


@pytest.mark.parametrize("size", [-512, -1024, 2**90])
def test_a_member_of_impossible_size_ends(tmp_path, size):
    block = bytearray(member(tarfile.REGTYPE, 0, b""))
    block[124:136] = (size % 256**12).to_bytes(12, "big")
    if size > 0:
        block[124] = 0x80
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    stream = io.BytesIO(bytes(block) + member(tarfile.REGTYPE, 0, b""))
    (tmp_path / "a.tgz").write_bytes(gzip.compress(stream.getvalue()))
    with pytest.raises(SourceError):
        read_members(tmp_path / "a.tgz", ["wanted"], FEW)
