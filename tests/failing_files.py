"""A file system that refuses operations on the files of one folder: opening, writing, fsync, renaming."""

import contextlib
import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

ERRORS = (errno.EIO, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ESTALE, errno.EMFILE, errno.EACCES)
OPERATIONS = ("open", "write", "fsync", "replace")
Refuses = Callable[[str, int], int | None]  # (operation, how many there were before) -> errno, or None


def now_and_then(errors=ERRORS) -> Refuses:
    """One of a few operations; the next four, which is what writing a file takes, are let through."""
    turn, gaps = itertools.cycle(errors), itertools.cycle((4, 5, 6, 7))
    left = [0]

    def refuses(_operation: str, _number: int) -> int | None:
        if left[0]:
            left[0] -= 1
            return None
        left[0] = next(gaps)
        return next(turn)

    return refuses


def for_good(operation: str, first: int, error: int) -> Refuses:
    """All operations of a kind from one on."""
    return lambda name, number: error if name == operation and number >= first else None


@contextlib.contextmanager
def refusing(folder: Path, refuses: Refuses) -> Iterator[list[tuple[str, int]]]:
    """Inside, operations on files below the folder fail as `refuses` says; the list fills with those that did."""
    counts, ours, refused = dict.fromkeys(OPERATIONS, 0), set(), []
    original = {name: getattr(os, name) for name in (*OPERATIONS, "close")}

    def inside(path: object) -> bool:
        return not isinstance(path, int) and folder in Path(os.fsdecode(path)).parents

    def tried(operation: str, path: object) -> None:
        number, counts[operation] = counts[operation], counts[operation] + 1
        if error := refuses(operation, number):
            refused.append((operation, error))
            raise OSError(error, os.strerror(error), None if isinstance(path, int) else os.fsdecode(path))

    def opening(path, *arguments, **named):
        if inside(path):
            tried("open", path)
        opened = original["open"](path, *arguments, **named)
        if inside(path):
            ours.add(opened)
        return opened

    def closing(opened):
        ours.discard(opened)
        original["close"](opened)

    def on_file(operation: str):
        def tested(opened, *arguments):
            number = opened if isinstance(opened, int) else opened.fileno()
            if number in ours:
                tried(operation, number)
            return original[operation](opened, *arguments)

        return tested

    def replacing(source, target, **named):
        if inside(target):
            tried("replace", target)
        original["replace"](source, target, **named)

    patched = {"open": opening, "close": closing, "replace": replacing}
    for name, function in (patched | {name: on_file(name) for name in ("write", "fsync")}).items():
        setattr(os, name, function)
    try:
        yield refused
    finally:
        for name, function in original.items():
            setattr(os, name, function)
