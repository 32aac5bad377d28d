import contextlib
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from tests.composing import tiny
from varnet.base.plots import rendered
from varnet.cli.train import run
from varnet.runs.folder import folder_of
from varnet.train.trainer import Trainer

torch.set_num_threads(1)  # small tensors gain nothing from more, and waiting threads suffer on a busy machine
threadpool_limits(1, "blas")  # of numpy and scipy: two threads spend twice the time on matrices this small
PICTURE = rendered(Figure(figsize=(0.1, 0.1)))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def handlers():
    """A command that runs in a test's process logs to the stdout of that test, which is closed with it."""
    before, level = list(logging.root.handlers), logging.root.level
    yield
    for one in [one for one in logging.root.handlers if type(one) is logging.StreamHandler and one not in before]:
        logging.root.removeHandler(one)
    logging.root.setLevel(level)


@contextlib.contextmanager
def no_pictures() -> Iterator[None]:
    """The picture of a run takes longer than its few steps in a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "figure", lambda self: PICTURE)
        yield


@pytest.fixture
def unpictured():
    with no_pictures():
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """The folder of a run of two steps, to read; who changes it takes a copy (`folder`)."""
    cfg = tiny(tmp_path_factory.mktemp("trained"))
    with no_pictures():
        run(cfg)
    return folder_of(cfg)


@pytest.fixture
def folder(trained, tmp_path) -> Path:
    """A run of two steps in a folder of the test's own."""
    return shutil.copytree(trained, tmp_path / trained.parent.name / trained.name)
