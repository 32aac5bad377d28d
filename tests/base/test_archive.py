"""Archives of tensors that a stranger made: refused before anything of the size that they name is made."""

import os
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
import torch

from varnet.base import archive
from varnet.errors import CheckpointError
from varnet.train import checkpoint

HUGE = 2**30


@pytest.fixture
def saved(tmp_path) -> Path:
    path = tmp_path / "saved.pt"
    torch.save({"w": torch.arange(1000.0), "n": [1, 2.5, None, "a"]}, path)
    return path


def rewritten(path: Path, compression: int = zipfile.ZIP_STORED, change=lambda name, content: content) -> Path:
    """The same archive with other contents, its checksums right."""
    other = path.with_name("rewritten.pt")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return other


def description(text: bytes):
    """Another description of the archive's tensors."""
    return lambda name, content: text if name.endswith("data.pkl") else content


def calling(module: str, name: str, number: int) -> bytes:
    """A pickle of {"w": module.name(number)}."""
    call = f"c{module}\n{name}\n(".encode() + b"J" + struct.pack("<i", number) + b"tR"
    return b"\x80\x02}X\x01\x00\x00\x00w" + call + b"s."


def test_what_torch_has_saved_is_loaded(saved):
    for path in (saved, rewritten(saved)):
        found = archive.loaded(path)
        assert torch.equal(found["w"], torch.arange(1000.0)) and found["n"] == [1, 2.5, None, "a"]


@pytest.fixture
def unread(monkeypatch):
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("was read"))


def test_compressed_tensors_are_refused_unread(saved, unread):
    zeros = lambda name, content: bytes(10_000_000) if "/data/" in name else content  # noqa: E731
    bomb = rewritten(saved, zipfile.ZIP_DEFLATED, zeros)
    assert bomb.stat().st_size < 100_000
    with pytest.raises(archive.Strange, match="compressed parts"):
        archive.loaded(bomb)
    with pytest.raises(CheckpointError, match="compressed parts, which varnet never writes"):
        checkpoint.read(bomb)


@pytest.mark.parametrize("module, name", [
    ("builtins", "bytearray"), ("torch.storage", "UntypedStorage"), ("torch", "FloatTensor"), ("torch", "Tensor"),
    ("torch.nn.parameter", "Parameter"), ("_codecs", "encode"), ("os", "system"), ("collections", "Counter"),
])  # fmt: skip
def test_nothing_is_called_but_what_makes_tensors(saved, unread, module, name):
    """torch itself lets a file of a kilobyte call some of these."""
    bomb = rewritten(saved, change=description(calling(module, name, HUGE)))
    with pytest.raises(pickle.UnpicklingError, match="it names"):
        archive.loaded(bomb)
    with pytest.raises(CheckpointError, match="it holds more than numbers"):
        checkpoint.read(bomb)


def test_names_that_are_put_together_are_refused(saved, unread):
    text = b"\x80\x04}\x8c\x01w\x8c\x08builtins\x8c\x09bytearray\x93J" + struct.pack("<i", HUGE) + b"\x85Rs."
    with pytest.raises(pickle.UnpicklingError, match="it names more than tensors"):
        archive.loaded(rewritten(saved, change=description(text)))


@pytest.mark.parametrize("which", [0, 1], ids=["storage", "shape"])
def test_a_tensor_is_no_larger_than_what_is_stored(saved, which):
    number, huge = b"M" + struct.pack("<H", 1000), b"J" + struct.pack("<i", HUGE)

    def changed(name: str, content: bytes) -> bytes:
        parts = content.split(number) if name.endswith("data.pkl") else [content]
        assert len(parts) in (1, 3)
        return parts[0] + b"".join((huge if i == which else number) + part for i, part in enumerate(parts[1:]))

    with pytest.raises(RuntimeError):
        archive.loaded(rewritten(saved, change=changed))


def test_parts_that_overlap_are_refused(tmp_path, unread):
    """Many names for the same bytes."""
    path = tmp_path / "overlapping.pt"
    with zipfile.ZipFile(path, "w") as new:
        new.writestr("archive/data/0", bytes(1000))
        first = new.infolist()[0]
        for number in range(1, 50):
            twin = zipfile.ZipInfo(f"archive/data/{number}")
            twin.header_offset, twin.CRC, twin.file_size, twin.compress_size = 0, first.CRC, 1000, 1000
            new.filelist.append(twin)
        new._didModify = True
    with pytest.raises(archive.Strange, match="larger than the file"):
        archive.loaded(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / checkpoint.NAME)
    with pytest.raises(CheckpointError, match="is no file"):
        checkpoint.read(tmp_path / checkpoint.NAME)


def test_a_configuration_that_stands_for_billions_of_values_is_refused(tmp_path):
    bomb: dict = {"a": 1}
    for _ in range(40):
        bomb = {"a": bomb, "b": bomb}
    deep: list = []
    for _ in range(200):
        deep = [deep]
    for config in (bomb, {"a": deep}, {"a": torch.zeros(1)}, ["a"], "a", None):
        torch.save({"model": {}, "config": config}, tmp_path / "state.pt")
        with pytest.raises(CheckpointError, match="its configuration is no group"):
            checkpoint.read(tmp_path / "state.pt")
