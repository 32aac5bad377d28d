"""Checksums beside what a run has written: damage is noticed, and the file made anew or refused.

They are against accidents. Who changes a file on purpose can change its checksum too; what a configuration says is
therefore compared with the name of its folder and with the checkpoint as well. Folders of earlier versions have none.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from varnet.base.files import content, parsed, write_json

NAME = "checksums.json"
MOST = 100_000  # bytes


def seal(folder: Path, files: Mapping[str, bytes]) -> None:
    """Note the checksums of files, by their places in the folder, before they are written: a file that a kill then
    leaves unwritten is one that does not fit."""
    write_json(folder / NAME, (_noted(folder) or {}) | {name: _sum(text) for name, text in files.items()})


def intact(folder: Path, name: str, text: bytes) -> bool:
    """Whether a file is as the run wrote it; also where the run noted no checksum."""
    noted, own = _noted(folder), _sum(text)
    return noted is not None and noted.get(name, own) == own


def sealed(folder: Path, name: str) -> bool:
    """Whether the run noted a checksum."""
    return name in (_noted(folder) or {})


def _sum(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _noted(folder: Path) -> dict[str, str] | None:
    """None: they are there and cannot be read."""
    try:
        found = parsed(content(folder / NAME, MOST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
