"""Processes that tests start. No test depends on how busy the machine is: only what has hung for good is given up."""

import subprocess
import time
from collections.abc import Callable

HANG = 1200.0  # seconds that nothing here lasts, however many processes share the machine


def wait_for(condition: Callable[[], object], process: subprocess.Popen | None = None) -> None:
    """Until it holds. It cannot hold any more once the process, if one is given, has ended."""
    deadline = time.monotonic() + HANG
    while not condition() and time.monotonic() < deadline and (process is None or process.poll() is None):
        time.sleep(0.02)
    assert condition(), process and output_of(process)


def output_of(process: subprocess.Popen) -> str:
    """All that it has printed, when it has ended; a process that hangs is killed."""
    try:
        return "".join(text or "" for text in process.communicate(timeout=HANG))
    finally:
        process.kill()
