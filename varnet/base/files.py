"""Files that are whole or not there."""

import json
import os
from pathlib import Path


def write_atomically(path: Path, content: bytes | str) -> None:
    """The file is the old one or the new one, at any moment and if the disk is full."""
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: object, indent: int | None = 2) -> None:
    write_atomically(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")
