"""A file system that refuses operations: once costs nothing; for good is one sentence, and the run goes on equal."""

import errno
import threading

import pytest
import torch

from tests import failing_files
from tests.train.test_trainer import assert_equal_runs, small, weights, whole  # noqa: F401 - a fixture
from varnet.base import files
from varnet.cli.train import run
from varnet.errors import Stopped
from varnet.runs.folder import folder_of
from varnet.runs.life import attempt
from varnet.runs.training import TRAINING

pytestmark = pytest.mark.usefixtures("unpictured")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(files, "PAUSES", (0.0,))


def assert_same(a, b) -> None:
    assert_equal_runs(a, b)
    for key, tensor in weights(a).items():
        assert torch.equal(weights(b)[key], tensor), key


def test_operations_of_every_kind_may_fail(tmp_path, whole, capfd):  # noqa: F811
    cfg = small(tmp_path)
    with failing_files.refusing(folder_of(cfg), failing_files.now_and_then()) as refused:
        run(cfg)
    assert {operation for operation, _ in refused} == set(failing_files.OPERATIONS)
    assert {error for _, error in refused} == set(failing_files.ERRORS) and len(refused) >= 10
    assert_same(whole, folder_of(cfg))
    assert not list(folder_of(cfg).glob("*.part")) and "Traceback" not in capfd.readouterr().err


GONE = [("open", 3, errno.EROFS), ("write", 9, errno.ENOSPC), ("fsync", 6, errno.EIO), ("replace", 6, errno.ESTALE)]


@pytest.mark.parametrize("operation, first, error", GONE)
def test_what_fails_for_good_is_one_sentence(operation, first, error, tmp_path, whole, capfd):  # noqa: F811
    cfg, threads = small(tmp_path), threading.active_count()
    refuses = failing_files.for_good(operation, first, error)
    with failing_files.refusing(folder_of(cfg), refuses) as refused, pytest.raises(Stopped) as stopped:
        attempt(TRAINING, cfg)
    assert len(refused) >= 2 and stopped.value.code in (2, 4)
    assert "\n" not in str(stopped.value) and str(stopped.value)
    assert "Traceback" not in capfd.readouterr().err and threading.active_count() == threads
    run(cfg)
    assert_same(whole, folder_of(cfg))
