"""Runs for test_parent.py that do nothing but wait, in a module that imports little: processes begin with it."""

import os
import signal
import time
from pathlib import Path

from tests.processes import HANG
from varnet.base.lock import locked
from varnet.base.parent import end_with_parent
from varnet.launch.pool import run_all


def sleeping(folder: Path) -> None:
    """A run that holds its folder, does not mind SIGTERM and says when it begins."""
    end_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with locked(folder):
        (folder / "begun").write_text(str(os.getpid()))
        time.sleep(HANG)


def by_pool(folders: list[Path]) -> None:
    run_all(sleeping, folders, jobs=2)


def by_joblib(folders: list[Path]) -> None:
    from joblib import Parallel, delayed

    Parallel(n_jobs=2)(delayed(sleeping)(folder) for folder in folders)
