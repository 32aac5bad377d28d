"""A configuration that a folder holds, which may be a stranger's: plain values of a modest size, or nothing.

What a run writes is resolved and has no aliases. So nothing is looked up for a stored file: an interpolation such as
${oc.env:SECRET} would carry a variable of the reader's into the numbers that are written. It is looked at as a stream
of events before anything is built from it: a file of a kilobyte can stand for billions of values. And it is the one
that the run wrote: its checksum says so, and the folder, whose name ends with a digest of it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_yaml_loader

from varnet.base.files import content
from varnet.runs import checksums
from varnet.runs.identity import digest_of

BYTES = 1_000_000  # of the file; a run's has about 2,000
SIZE = 1_000_000  # characters of all values, each with VALUE for itself, every alias written out
VALUE = 50
DEPTH = 30
NAMED = re.compile(r"seed\d+-([0-9a-f]{8})")  # folders of runs


class Refused(ValueError):
    """A configuration that no run has written; the message continues `a file that ...`."""


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML as OmegaConf reads it, ten times as fast where PyYAML has its parser in C."""

    yaml_implicit_resolvers = get_yaml_loader().yaml_implicit_resolvers

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [key.value for key, _ in node.value if key.tag == yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG]
        if len(keys) > len(set(keys)):
            raise yaml.constructor.ConstructorError("while reading a mapping", node.start_mark, "a key is there twice")
        return super().construct_mapping(node, deep=deep)


def load(path: Path) -> DictConfig:
    """The configuration FOLDER/.hydra/config.yaml, once it is known to be harmless and that of the run."""
    return OmegaConf.create(load_plain(path))


def load_plain(path: Path) -> dict:
    """The same as plain values: a report reads thousands."""
    try:
        text, folder = content(path, BYTES), path.parent.parent
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refused(error.strerror) from error
    if not checksums.intact(folder, f"{path.parent.name}/{path.name}", text):
        raise Refused(f"does not fit its checksum in {checksums.NAME}: one of the two was changed or damaged")
    try:
        values = _values(text.decode())
    except UnicodeDecodeError as error:
        raise Refused("is no text") from error
    named = NAMED.fullmatch(folder.resolve().name)
    if named and _digest(values) != named[1]:
        raise Refused(f"is not that of the run by whose digest, {named[1]}, its folder is named")
    return values


def _values(text: str) -> dict:
    for event in _harmless(text):
        if isinstance(event, yaml.ScalarEvent) and "${" in event.value:
            raise Refused("has an interpolation, ${...}, which a run never writes")
    values = yaml.load(text, Loader=Loader)
    if not isinstance(values, dict):
        raise Refused("is no group of keys and values")
    return values


def _digest(values: dict) -> str | None:
    try:
        return digest_of(values)
    except (LookupError, TypeError, ValueError, AttributeError):  # something else than a run's
        return None


def _harmless(content: str) -> Iterator[yaml.Event]:
    """The events of a document that is neither deep nor large, its aliases written out."""
    sizes: dict[str, int] = {}  # of what has an anchor and is complete
    open_: list[tuple[str | None, int]] = []  # anchor and what was counted before, of each collection around the event
    total = 0
    for event in yaml.parse(content, Loader=Loader):
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
