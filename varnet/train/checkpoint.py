"""Checkpoints that survive: written whole or not at all, the previous one kept, never unpickled."""

import contextlib
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from varnet.base import archive
from varnet.base.files import PASSING, again, replace, write_atomically
from varnet.base.lock import check_held
from varnet.base.nested import is_plain
from varnet.errors import CheckpointError, DataError, one_line

log = logging.getLogger(__name__)
NAME, PREVIOUS, FRESH = "checkpoint.pt", "checkpoint.previous.pt", "checkpoint.pt.new"


def save(folder: Path, state: dict) -> None:
    """The last checkpoint becomes the previous one once the new one is safely on disk beside it."""
    check_held(folder)
    write_atomically(folder / FRESH, archive.dumped(state))
    check_held(folder)  # writing takes long
    _put_in_place(folder)


def _put_in_place(folder: Path) -> None:
    if (folder / NAME).exists():
        replace(folder / NAME, folder / PREVIOUS)
    replace(folder / FRESH, folder / NAME)


def pending(folder: Path) -> bool:
    """Whether the last save was stopped before its renames."""
    return (folder / FRESH).exists()


def complete(folder: Path) -> None:
    """Do the renames of the last save, which a kill or an error may have prevented; for who owns the folder."""
    if not pending(folder):
        return
    with contextlib.suppress(CheckpointError):  # a damaged one replaces nothing: load says what is wrong with it
        read(folder / FRESH)
        if (folder / NAME).exists() and not _good(folder / NAME):
            _put_aside(folder / NAME)  # it replaces no good one
        _put_in_place(folder)


def _good(path: Path) -> bool:
    try:
        return bool(read(path))
    except CheckpointError:
        return False


def _put_aside(path: Path) -> None:
    replace(path, path.with_name(path.name + ".damaged"))


def save_snapshot(folder: Path, epoch: int, weights: dict, config: dict) -> None:
    """The weights alone, to keep: for snapshot ensembles."""
    state = {"model": weights, "config": config, "epoch": epoch}
    write_atomically(folder / f"snapshot_{epoch}.pt", archive.dumped(state))


def exists(folder: Path) -> bool:
    return any((folder / name).exists() for name in (FRESH, NAME, PREVIOUS))


def load(folder: Path, put_aside: bool = False) -> dict:
    """The newest checkpoint of a folder that can be read. The run that owns the folder puts damaged ones aside, so that
    they replace no good one when it saves; where none is good all stay, so that it is not begun anew unasked."""
    damaged: dict[Path, CheckpointError] = {}
    for path in (folder / FRESH, folder / NAME, folder / PREVIOUS):
        if not path.exists():
            continue
        try:
            state = read(path)
        except CheckpointError as error:
            damaged[path] = error
            continue
        for bad, error in damaged.items():
            log.warning("%s; the one before it is used", error)
            if put_aside:
                _put_aside(bad)
        return state
    found = "; ".join(map(str, damaged.values())) or f"{folder} has no {NAME}"
    raise CheckpointError(f"{found}: start the run anew in another folder, with out_dir=FOLDER")


def newest(path: Path) -> dict:
    """What a user names: a folder, or a file, whose place a newer one may not have taken yet."""
    if path.is_dir():
        return load(path)
    if path.name == NAME and (fresh := path.with_name(FRESH)).exists():
        try:
            state = read(fresh)
        except CheckpointError as error:
            log.warning("%s; the one before it is used", error)
        else:
            log.warning("%s is older than %s beside it, which is used", path, FRESH)
            return state
    return read(path)


@contextlib.contextmanager
def taken(folder: Path) -> Iterator[None]:
    """Around what takes over the state of a checkpoint: one sentence if it is none of such a run."""
    try:
        yield
    except DataError:  # other data than the run had: the loader has a sentence of its own
        raise
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CheckpointError(
            f"{folder}: the checkpoint is not one of such a run ({one_line(error)[:200]}): start it anew in another "
            "folder, with out_dir=FOLDER"
        ) from error


def read(path: Path) -> dict:
    """One checkpoint file, its checksums tested, its parts of the right kinds."""
    try:
        state = again(lambda: archive.loaded(path))
        if not (isinstance(state, dict) and isinstance(state.get("model"), dict) and "config" in state):
            raise ValueError("it is not a checkpoint of varnet")
        if not all(isinstance(name, str) and isinstance(w, Tensor) for name, w in state["model"].items()):
            raise ValueError("its weights are no tensors with names")
        if not (isinstance(state["config"], dict) and is_plain(state["config"])):
            raise ValueError("its configuration is no group of keys and values")
        return state
    except pickle.UnpicklingError as error:  # torch's own words tell how to read it all the same
        raise CheckpointError(f"{path} cannot be read (it holds more than numbers, which might do harm)") from error
    except Exception as error:  # torch.load raises nearly anything for a damaged file
        if isinstance(error, OSError) and error.errno in PASSING:
            raise  # it is not damaged, and none is put aside
        raise CheckpointError(f"{path} cannot be read ({one_line(error)[:200]})") from error
