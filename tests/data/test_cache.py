"""The cached file: whole or absent, whatever happens while it is written; a damaged one is built again."""

import errno
import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest

from tests.data.processes import begin, code_of, start
from tests.data.tiny_data import fetch, install_tiny, tiny_arrays, write_files
from varnet.data import folder, load, vision
from varnet.data.folder import data_folder
from varnet.errors import DataError


@pytest.fixture(scope="module", autouse=True)
def server():
    """Before a test changes variables that all processes would have."""
    begin()


@pytest.fixture
def mnist(monkeypatch, tmp_path):
    """A data folder with tiny MNIST files, and no way to fetch anything else."""
    _, files = install_tiny(monkeypatch, "mnist")
    monkeypatch.setattr(vision, "download", lambda *_: pytest.fail("a download was tried"))
    monkeypatch.setenv("PATH", "")
    write_files(tmp_path / "mnist", files)
    return tmp_path


def no_network(*_):
    raise OSError("no network")


def remove_files(data: Path) -> None:
    for path in (data / "mnist").iterdir():
        path.unlink()


def fetches_right(data: Path) -> bool:
    arrays = tiny_arrays("mnist")
    return all(np.array_equal(fetch("mnist", data).arrays[key], arrays[key]) for key in arrays)


def test_the_cache_alone_is_enough(mnist):
    first = fetch("mnist", mnist)
    remove_files(mnist)
    second = fetch("mnist", mnist)
    assert second.source == first.source == str(mnist / "mnist")
    assert second.path == mnist / "varnet_mnist.bin"
    assert fetches_right(mnist)
    assert all(array.flags.writeable and array.flags.c_contiguous for array in second.arrays.values())


def cut(data: bytes) -> bytes:
    return data[:-1]


def flip_a_bit(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def another_dataset(data: bytes) -> bytes:
    return data.replace(b'"dataset": "mnist"', b'"dataset": "other"')


def no_shapes(data: bytes) -> bytes:
    header, payload = data.split(b"\n", 1)
    return json.dumps({**json.loads(header), "shapes": {}}).encode() + b"\n" + payload


def odd_shapes(data: bytes) -> bytes:
    header, payload = data.split(b"\n", 1)
    shapes = json.loads(header)["shapes"] | {"train_y": "forty"}
    return json.dumps({**json.loads(header), "shapes": shapes}).encode() + b"\n" + payload


DAMAGE = {
    cut: "it has 47,0.. of 47,1.. bytes",
    flip_a_bit: "its checksum is wrong",
    another_dataset: "it holds something else than .varnet data 1. of mnist",
    no_shapes: "it does not begin with varnet's header",
    odd_shapes: "it holds something else than .varnet data 1. of mnist",
    lambda data: b"": "it does not begin with varnet's header",
    lambda data: b"\x80\x04pickle?" * 99: "it does not begin with varnet's header",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_is_built_again_and_said_to_be_damaged(mnist, monkeypatch, caplog, damage):
    path = fetch("mnist", mnist).path
    path.write_bytes(damage(path.read_bytes()))
    assert not caplog.records
    assert fetches_right(mnist)
    (warning,) = caplog.records
    assert warning.levelname == "WARNING" and "\n" not in warning.message
    assert re.fullmatch(rf"mnist: {path} is damaged \({DAMAGE[damage]}\); it is fetched anew", warning.message)
    path.write_bytes(damage(path.read_bytes()))
    remove_files(mnist)
    monkeypatch.setattr(vision, "download", no_network)
    with pytest.raises(
        DataError, match=rf"varnet_mnist\.bin is damaged \({DAMAGE[damage]}\); torchvision's download: no network"
    ):
        fetch("mnist", mnist)


def test_a_folder_in_the_place_of_the_cache(mnist):
    (mnist / "varnet_mnist.bin").mkdir()
    with pytest.raises(DataError, match=r"varnet_mnist\.bin .*cannot be written"):
        fetch("mnist", mnist)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_read_only_or_full_folder_serves_its_files_and_downloads_nothing(mnist, monkeypatch, code):
    def deny(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(folder.tempfile, "TemporaryFile", deny)
    got = fetch("mnist", mnist)
    assert got.path is None and not list(mnist.glob("varnet*"))
    assert np.array_equal(got.arrays["train_x"], tiny_arrays("mnist")["train_x"])
    assert load("mnist", mnist).train_x.shape == (40, 1, 28, 28)
    remove_files(mnist)  # and the fixture fails the test if a download is tried
    with pytest.raises(DataError, match=rf"cannot be written to \({os.strerror(code)}\).*dataset=digits"):
        fetch("mnist", mnist)


def test_a_damaged_cache_in_a_read_only_folder_is_said_too(mnist, monkeypatch, caplog):
    path = fetch("mnist", mnist).path
    path.write_bytes(cut(path.read_bytes()))
    monkeypatch.setattr("varnet.data.fetch.why_unwritable", lambda _: "Permission denied")
    assert fetch("mnist", mnist).path is None
    assert [" is damaged (" in record.message for record in caplog.records] == [True, False]
    remove_files(mnist)
    with pytest.raises(DataError, match=r"varnet_mnist\.bin is damaged .*; .* \(Permission denied\)"):
        fetch("mnist", mnist)


def test_a_folder_that_cannot_be_made(mnist):
    (mnist / "file").write_text("")
    with pytest.raises(DataError, match=r"file/below cannot be written to \(Not a directory\).*dataset=digits"):
        fetch("mnist", mnist / "file" / "below")
    with pytest.raises(DataError, match=r"data_dir=.*file is a file"):
        load("mnist", mnist / "file")


def test_a_disk_that_fills_up_while_the_cache_is_written(mnist, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"varnet_mnist\.bin .*No space left on device.*VARNET_DATA.*dataset=digits"):
        fetch("mnist", mnist)
    assert sorted(p.name for p in mnist.iterdir()) == [".varnet_mnist.lock", "mnist"]


TOGETHER = """
import time

def slow_download(name, scratch, official, labels):
    with open(data / "downloads", "a") as log:
        log.write("x")
    while len((data / "downloads").read_text()) < at_once:  # without locks: until the other downloads too
        time.sleep(0.01)
    return official.encode(tiny_arrays(name.lower()))

vision.download = slow_download
(data / f"ready{os.getpid()}").touch()
while len(list(data.glob("ready*"))) < 2:
    time.sleep(0.01)
got = fetch("mnist", data)
assert all((got.arrays[key] == value).all() for key, value in tiny_arrays("mnist").items())
"""
LOCKS = "at_once = 1\n"
NO_LOCKS = """
import fcntl
at_once = 2
def no_locks(*_):
    raise OSError(37, "No locks available")
fcntl.flock = no_locks
"""


@pytest.mark.parametrize("prelude, downloads", [(LOCKS, "x"), (NO_LOCKS, "xx")], ids=["locks", "none"])
def test_two_processes_at_once(tmp_path, prelude, downloads):
    """With locks the second waits and reads the cache; without, both fetch and neither spoils it."""
    processes = [start(tmp_path, prelude + TOGETHER, tmp_path / "errors") for _ in range(2)]
    assert [code_of(process) for process in processes] == [0, 0], (tmp_path / "errors").read_text()
    assert (tmp_path / "downloads").read_text() == downloads
    assert not list(tmp_path.glob(".varnet_fetch*"))


def test_a_process_killed_while_writing_leaves_no_cache(mnist, tmp_path_factory):
    errors = tmp_path_factory.mktemp("errors") / "errors"
    process = start(mnist, "os.fsync = lambda _: os.kill(os.getpid(), 9)\nfetch('mnist', data)\n", errors)
    assert code_of(process) == -9
    assert not (mnist / "varnet_mnist.bin").exists()
    (left,) = mnist.glob(".varnet_fetch_*")
    assert (left / "varnet_mnist.bin").exists(), "it was killed with the file written but not in place"
    assert fetches_right(mnist)
    assert left.exists(), "it may belong to a running process"
    os.utime(left, (time.time() - 2 * folder.ABANDONED,) * 2)
    (mnist / "varnet_mnist.bin").unlink()
    assert fetches_right(mnist)
    assert not left.exists()


def test_a_real_write_error(mnist, tmp_path_factory):
    errors = tmp_path_factory.mktemp("errors") / "errors"
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
    assert code_of(start(mnist, limit + "fetch('mnist', data)\n", errors)) == 1
    assert "DataError: dataset=mnist was read from" in errors.read_text()
    assert sorted(p.name for p in mnist.iterdir()) == [".varnet_mnist.lock", "mnist"]


def test_which_folder(monkeypatch):
    monkeypatch.delenv("VARNET_DATA", raising=False)
    assert data_folder() == Path("data")
    monkeypatch.setenv("VARNET_DATA", "elsewhere")
    assert data_folder() == Path("elsewhere")
    assert data_folder("here") == Path("here")
    assert data_folder("~/x") == Path.home() / "x"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_progress_bar_on_a_terminal_only(mnist, monkeypatch, capsys, terminal):
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")  # rich takes the first for a terminal
    monkeypatch.delenv("NO_COLOR" if terminal else "FORCE_COLOR", raising=False)
    fetch("mnist", mnist)
    assert ("mnist: writing" in capsys.readouterr().err) == terminal
