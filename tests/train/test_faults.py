"""Faults of a last save and of a folder that is deleted under its run."""

import os
import shutil
from pathlib import Path

import pytest
import torch

from tests.train.stopping import interrupted_at
from tests.train.test_trainer import assert_equal_runs, small, weights, whole  # noqa: F401 - a fixture
from varnet.base import files, lock
from varnet.cli.train import run
from varnet.errors import ConfigError, FolderLost, Stopped
from varnet.runs.folder import folder_of
from varnet.runs.life import attempt
from varnet.runs.training import TRAINING
from varnet.train import checkpoint

pytestmark = pytest.mark.usefixtures("unpictured")


class Killed(BaseException):
    """What ends a process without a further word."""


def broken_rename(monkeypatch: pytest.MonkeyPatch, number: int, fault: BaseException) -> None:
    """The rename of that number, of those of checkpoints, does not happen, however often it is tried."""
    original, renames = os.replace, []

    def replace(source, target):
        if Path(target).name in (checkpoint.NAME, checkpoint.PREVIOUS):
            renames.append(target)
            if len(renames) >= number:
                raise fault
        original(source, target)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(files, "PAUSES", (0.0,))


def renames_of(folder: Path, monkeypatch: pytest.MonkeyPatch, cfg) -> int:
    """How many there are in the whole run."""
    seen, original = [], os.replace
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda source, target: (seen.append(Path(target).name), original(source, target)))
        run(cfg)
    return sum(name in (checkpoint.NAME, checkpoint.PREVIOUS) for name in seen)


@pytest.mark.parametrize("fault", [Killed(), OSError(5, "Input/output error")], ids=["killed", "error"])
@pytest.mark.parametrize("which", [0, 1], ids=["before both renames", "between them"])
def test_the_renames_of_the_last_save_are_done_at_the_next_start(tmp_path, monkeypatch, whole, fault, which):  # noqa: F811
    total = renames_of(tmp_path, monkeypatch, small(tmp_path / "counted"))
    cfg = small(tmp_path / "cut")
    folder = folder_of(cfg)
    with monkeypatch.context() as patch:
        broken_rename(patch, total - 1 + which, fault)
        with pytest.raises(type(fault)):
            run(cfg)
    assert checkpoint.pending(folder) and not (folder / "metrics.json").exists()
    run(cfg)
    assert not checkpoint.pending(folder)
    assert_equal_runs(whole, folder)
    for key, tensor in weights(whole).items():
        assert torch.equal(weights(folder)[key], tensor), key


@pytest.fixture
def pending(tmp_path, whole) -> Path:  # noqa: F811
    """A finished run, as an earlier version left it: the last checkpoint not in its place, an older one there."""
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    os.replace(folder / checkpoint.NAME, folder / checkpoint.FRESH)
    os.replace(folder / checkpoint.PREVIOUS, folder / checkpoint.NAME)
    return folder


def test_a_finished_run_whose_last_rename_is_missing_is_completed(tmp_path, pending, whole):  # noqa: F811
    cfg = small(tmp_path / "again")
    os.makedirs(folder_of(cfg).parent)
    os.replace(pending, folder := folder_of(cfg))
    run(cfg)
    assert not checkpoint.pending(folder) and checkpoint.read(folder / checkpoint.NAME)["epoch"] == 4
    assert all(torch.equal(weights(folder)[key], tensor) for key, tensor in weights(whole).items())


def test_init_from_takes_no_old_weights(pending, whole, caplog):  # noqa: F811
    last = weights(whole)
    found = checkpoint.newest(pending / checkpoint.NAME)["model"]
    assert all(torch.equal(found[key], tensor) for key, tensor in last.items())
    assert "checkpoint.pt is older than checkpoint.pt.new beside it" in caplog.text
    assert checkpoint.pending(pending)  # it is another's folder
    (pending / checkpoint.FRESH).write_bytes(b"junk")
    assert checkpoint.newest(pending / checkpoint.NAME)["epoch"] < 4 and "cannot be read" in caplog.text


def test_a_damaged_checkpoint_replaces_no_good_one(pending):
    shutil.copy(pending / checkpoint.FRESH, pending / checkpoint.PREVIOUS)
    (pending / checkpoint.NAME).write_bytes(b"junk")
    checkpoint.complete(pending)
    assert checkpoint.read(pending / checkpoint.NAME) and checkpoint.read(pending / checkpoint.PREVIOUS)
    (pending / checkpoint.FRESH).write_bytes(b"junk")
    checkpoint.complete(pending)
    assert checkpoint.pending(pending) and checkpoint.read(pending / checkpoint.NAME)["epoch"] == 4


# ---- one writer


@pytest.mark.parametrize("again", [True, False], ids=["and made anew", "alone"])
def test_a_run_whose_folder_is_deleted_writes_no_more(tmp_path, monkeypatch, whole, again):  # noqa: F811
    cfg, deletions = small(tmp_path), []

    def deleted(_):
        if deletions:
            return  # the second run
        deletions.append(shutil.rmtree(folder_of(cfg)))
        if again:
            run(cfg)

    interrupted_at(3, monkeypatch, deleted)
    with pytest.raises(FolderLost, match="was deleted or replaced"):
        run(cfg)
    assert folder_of(cfg).exists() == again
    if again:
        assert_equal_runs(whole, folder_of(cfg))


def test_the_command_says_it_in_a_sentence(tmp_path, monkeypatch):
    cfg = small(tmp_path)
    interrupted_at(3, monkeypatch, lambda _: shutil.rmtree(folder_of(cfg)))
    with pytest.raises(Stopped, match="was deleted or replaced while this run wrote into it: start it again") as error:
        attempt(TRAINING, cfg)
    assert error.value.code == 4


def deleted_once_locked(monkeypatch: pytest.MonkeyPatch, folder: Path, times: int) -> list:
    """Each of the first locks is on a folder that is deleted right then."""
    original, calls = lock._lock, []

    def locking(file, where):
        original(file, where)
        calls.append(file)
        if len(calls) <= times:
            shutil.rmtree(folder)

    monkeypatch.setattr(lock, "_lock", locking)
    return calls


def test_a_lock_on_a_deleted_folder_is_none(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    calls = deleted_once_locked(monkeypatch, folder, 2)
    with lock.locked(folder):
        assert len(calls) == 3
        lock.check_held(folder)
        with pytest.raises(ConfigError, match="is being written by another process"), lock.locked(folder):
            pass
        lock.check_held(folder)


def test_a_folder_that_others_delete_all_the_time_is_given_up(tmp_path, monkeypatch):
    deleted_once_locked(monkeypatch, tmp_path / "run", 1000)
    with pytest.raises(ConfigError, match="is being deleted by another process"), lock.locked(tmp_path / "run"):
        pass
