"""Files that are whole or not there, and dictionaries inside dictionaries."""

import json
import os

import pytest

from varnet.base.files import write_atomically, write_json
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
