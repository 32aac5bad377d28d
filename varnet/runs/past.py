"""The epochs of a run, read from its folder: as they were written, or from the copy in its checkpoint, or refused."""

import json
import logging
from pathlib import Path

from varnet.base.files import content, write_atomically
from varnet.errors import CheckpointError, ConfigError
from varnet.runs import checksums
from varnet.train.history import HISTORY, LONGEST, rows, unpacked

log = logging.getLogger("varnet")


def history(folder: Path, number: str | None = "epoch") -> list[dict]:
    """The lines of history.jsonl, each with a larger number than the one before; of a run that goes on those that are
    whole. A run that wrote none has none."""
    try:
        text = content(folder / HISTORY)
    except OSError:
        text = b""
    if checksums.intact(folder, HISTORY, text):
        return rows(text, number)
    log.warning("%s is damaged or missing: its lines are taken from the checkpoint", folder / HISTORY)
    return rows(_copied(folder), number)


def mend(folder: Path) -> None:
    """Make the file anew from the checkpoint; for who owns the folder."""
    text = _copied(folder)
    log.warning("%s was damaged or missing: it is made anew from the checkpoint", folder / HISTORY)
    write_atomically(folder / HISTORY, text)


def _copied(folder: Path) -> bytes:
    """The text as the last checkpoint has it, which is that of the file once the run has ended."""
    from torch import Tensor  # here: a report of sound histories does without

    from varnet.train import checkpoint

    try:
        state = checkpoint.load(folder)
        copy = state.get("history")
        if isinstance(copy, Tensor):
            return _fitting(folder, unpacked(copy, int(state["epoch"]) * LONGEST))
        if isinstance(copy, list):  # of reinforcement learning
            return _fitting(folder, "".join(json.dumps(row) + "\n" for row in copy).encode())
        reason = "its checkpoint has no copy"
    except (CheckpointError, ValueError, TypeError, LookupError, RuntimeError, RecursionError) as error:
        reason = str(error)
    raise ConfigError(f"{folder / HISTORY} is damaged or missing, and {reason}: restore it, or run it again elsewhere")


def _fitting(folder: Path, text: bytes) -> bytes:
    if not checksums.intact(folder, HISTORY, text):
        raise ValueError("the copy in its checkpoint is of another time")
    return text
