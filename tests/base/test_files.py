"""Files that are whole or not there, and dictionaries inside dictionaries."""

import errno
import json
import os

import pytest

from varnet.base import files
from varnet.base.files import append, appending, remove_unfinished, write_atomically, write_json
from varnet.base.nested import flat, without_nulls


def no_room(_descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def stopped(_descriptor: int) -> None:
    raise KeyboardInterrupt


def test_text_and_bytes_replace_what_was_there(tmp_path):
    path = tmp_path / "file"
    for content in ("ä\n", b"\xff", ""):
        write_atomically(path, content)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("failure", [no_room, stopped])
@pytest.mark.parametrize("before", [b"old", None])
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch, failure, before):
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    monkeypatch.setattr(os, "fsync", failure)
    monkeypatch.setattr(files, "PAUSES", (0.0,))
    with pytest.raises((OSError, KeyboardInterrupt)):
        write_atomically(path, b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([before] if before is not None else [])


def test_json_ends_with_a_line_and_keeps_letters_as_they_are(tmp_path):
    write_json(tmp_path / "file", {"a": "ß", "b": [1, None]})
    text = (tmp_path / "file").read_text(encoding="utf-8")
    assert json.loads(text) == {"a": "ß", "b": [1, None]} and text.endswith("}\n") and "ß" in text


def test_nested_dictionaries():
    values = {"a": {"b": 1, "c": {"d": None}}, "e": None, "f": []}
    assert flat(values) == {"a.b": 1, "a.c.d": None, "e": None, "f": []}
    assert without_nulls(values) == {"a": {"b": 1, "c": {}}, "f": []}


def test_a_link_under_the_name_of_an_unfinished_file_is_not_followed(tmp_path, monkeypatch):
    """Even by one who foresees the name."""
    theirs, path = tmp_path / "theirs", tmp_path / "file"
    theirs.write_text("precious")
    (tmp_path / "file.part").symlink_to(theirs)
    write_atomically(path, "new")
    assert path.read_text() == "new"
    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * n)
    (tmp_path / f"file.{'0' * 8}.part").symlink_to(theirs)
    with pytest.raises(FileExistsError):
        write_atomically(path, "newer")
    assert (path.read_text(), theirs.read_text()) == ("new", "precious")


def test_a_link_under_the_name_of_the_file_is_replaced(tmp_path):
    theirs, path = tmp_path / "theirs", tmp_path / "file"
    theirs.write_text("precious")
    path.symlink_to(theirs)
    write_atomically(path, "new")
    assert not path.is_symlink() and theirs.read_text() == "precious"


def test_appending_makes_the_file_and_goes_on_at_its_end(tmp_path):
    for line in (b"a\n", b"b\n"):
        with appending(tmp_path / "file") as file:
            file.write(line)
    assert (tmp_path / "file").read_bytes() == b"a\nb\n"


@pytest.mark.parametrize("plant", [lambda at, theirs: at.symlink_to(theirs), lambda at, _: os.mkfifo(at)])
@pytest.mark.parametrize("there", [True, False])
def test_appending_follows_no_link_and_waits_for_no_pipe(tmp_path, plant, there):
    theirs = tmp_path / "theirs"
    if there:
        theirs.write_text("precious")
    plant(tmp_path / "file", theirs)
    with pytest.raises(OSError, match="a link or a device"):
        appending(tmp_path / "file")
    assert theirs.read_text() == "precious" if there else not theirs.exists()


def test_only_unfinished_files_are_removed(tmp_path):
    for name in ("a.json", "a.json.0123.part"):
        (tmp_path / name).write_text("x")
    remove_unfinished(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def failing(monkeypatch: pytest.MonkeyPatch, times: int, number: int) -> list:
    """write() fails so often, after half of what it was given; what was waited for is listed."""
    original, waited, left = os.write, [], [times]

    def write(opened, content):
        if left[0]:
            left[0] -= 1
            original(opened, content[: len(content) // 2])
            raise OSError(number, os.strerror(number))
        return original(opened, content)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


@pytest.mark.parametrize("times", [1, 2])
def test_what_fails_once_or_twice_is_tried_again(tmp_path, monkeypatch, times):
    path = tmp_path / "file"
    path.write_bytes(b"before\n")
    waited = failing(monkeypatch, times, errno.EIO)
    append(path, b"a line\n")
    assert path.read_bytes() == b"before\na line\n" and waited == list(files.PAUSES[:times])
    waited = failing(monkeypatch, times, errno.ENOSPC)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


def test_what_fails_for_good_is_an_error_after_a_while(tmp_path, monkeypatch):
    failing(monkeypatch, 100, errno.EDQUOT)
    with pytest.raises(OSError, match="quota"):
        append(tmp_path / "file", b"a line\n")
    assert not list(tmp_path.glob("*.part"))


def test_what_does_not_pass_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("waited"))
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "file", "text")
