"""A configuration that a folder holds, which may be a stranger's: plain values of a modest size, or nothing.

What a run writes is resolved and has no aliases. So nothing is looked up for a stored file: an interpolation such as
${oc.env:SECRET} would carry a variable of the reader's into the numbers that are written. It is looked at as a stream
of events before anything is built from it: a file of a kilobyte can stand for billions of values.
"""

import stat
from collections.abc import Iterator
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf

BYTES = 1_000_000  # of the file; a run's has about 2,000
SIZE = 1_000_000  # characters of all values, each with VALUE for itself, every alias written out
VALUE = 50
DEPTH = 30


class Refused(ValueError):
    """A configuration that no run has written; the message continues `a file that ...`."""


def load(path: Path) -> DictConfig:
    """The configuration, once it is known to be harmless."""
    content = _content(path)
    for event in _harmless(content):
        if isinstance(event, yaml.ScalarEvent) and "${" in event.value:
            raise Refused("has an interpolation, ${...}, which a run never writes")
    return OmegaConf.create(content)


def _content(path: Path) -> str:
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise Refused("is no file")
    if about.st_size > BYTES:
        raise Refused(f"is larger than {BYTES:,} bytes")
    return path.read_text(encoding="utf-8")


def _harmless(content: str) -> Iterator[yaml.Event]:
    """The events of a document that is neither deep nor large, its aliases written out."""
    sizes: dict[str, int] = {}  # of what has an anchor and is complete
    open_: list[tuple[str | None, int]] = []  # anchor and what was counted before, of each collection around the event
    total = 0
    for event in yaml.parse(content, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise Refused("contains itself")
            total += sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            size = VALUE + len(event.value)
            total += size
            if event.anchor:
                sizes[event.anchor] = size
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, total))
            total += VALUE
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = total - before
        if total > SIZE:
            raise Refused(f"stands for more than {SIZE:,} characters")
        if len(open_) > DEPTH:
            raise Refused(f"is nested deeper than {DEPTH}")
        yield event
