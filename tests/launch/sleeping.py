"""A run for test_pool.py that does nothing but wait, in a module that imports little: processes begin with it."""

import signal
import time
from collections.abc import Callable
from pathlib import Path


def wait_for(condition: Callable[[], bool], seconds: float = 600) -> None:
    """For what always comes; the limit ends a test that hangs."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def sleeping(folder: Path) -> None:
    """A run that says when it begins and when it is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: (folder / "ended").write_text(""))
    (folder / "begun").write_text("")
    wait_for((folder / "ended").exists)
