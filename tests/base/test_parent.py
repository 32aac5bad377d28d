"""Processes end with the one that started them, and their folders are free at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.composing import ROOT
from tests.processes import wait_for
from varnet.base.lock import locked
from varnet.base.parent import end_with_parent


@pytest.mark.parametrize("by", ["by_pool", pytest.param("by_joblib", marks=pytest.mark.slow)])
def test_runs_end_with_a_sweep_that_is_killed(by, tmp_path):
    folders = [tmp_path / name for name in "ab"]
    script = tmp_path / "sweep.py"
    script.write_text(f"""
from pathlib import Path
from tests.base import sleeping
if __name__ == "__main__":
    sleeping.{by}([Path(folder) for folder in {[str(folder) for folder in folders]}])
""")
    sweep = subprocess.Popen([sys.executable, str(script)], env=os.environ | {"PYTHONPATH": str(ROOT)})
    wait_for(lambda: all(_begun(folder) for folder in folders), sweep)
    sweep.kill()
    sweep.wait()
    for folder in folders:
        wait_for(lambda folder=folder: not _alive(_begun(folder)))
        with locked(folder):
            pass


def _begun(folder: Path) -> int | None:
    """The process of a run, once it holds its folder."""
    path = folder / "begun"
    return int(path.read_text() or 0) if path.exists() else None


def _alive(process: int) -> bool:
    """Whether it runs; one that has ended may wait for whoever has inherited it to look."""
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_who_has_no_parent_is_left_alone():
    end_with_parent()
