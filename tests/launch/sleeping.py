"""A run for test_pool.py that does nothing but wait, in a module that imports little: processes begin with it."""

import signal
from pathlib import Path

from tests.processes import wait_for


def sleeping(folder: Path) -> None:
    """A run that says when it begins and when it is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: (folder / "ended").write_text(""))
    (folder / "begun").write_text("")
    wait_for((folder / "ended").exists)
