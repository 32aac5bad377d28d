"""A process that ends with the one that started it, however that one ended."""

import functools
import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

LOOK_EVERY = 0.1  # seconds, where the parent cannot be waited for


@functools.cache
def end_with_parent() -> None:
    """From here on, if multiprocessing or joblib has started this process.

    It is killed, and not asked to save: whoever starts the same command again finds its folder free at once. What it
    had written is whole, and the run goes on from its last checkpoint, as after any other kill.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    if parent.sentinel is not None:
        wait([parent.sentinel])
    else:  # joblib's processes hold no end of a pipe to their parent
        while os.getppid() == parent.pid:
            time.sleep(LOOK_EVERY)
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
