"""Signals, handled in one way everywhere: replaced for a while and put back."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator

Handlers = dict[int, object]
STOPPING = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def handled(act: Callable[[int, Handlers], object], numbers: Iterable[int] = STOPPING) -> Iterator[None]:
    """act(number, handlers before) on each of the signals. Outside of the main thread, which alone gets signals,
    nothing is changed."""
    before: Handlers = {}
    try:
        for number in numbers:
            before[number] = signal.signal(number, lambda number, _frame: act(number, before))
    except ValueError:
        before.clear()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def give_back(number: int, before: Handlers) -> None:
    """From inside of act(): the next signal of this number goes to the handler from before."""
    signal.signal(number, before[number])


@contextlib.contextmanager
def termination_interrupts() -> Iterator[None]:
    """SIGTERM is a Ctrl-C, after which runs save and end."""

    def interrupt(_number: int, _before: Handlers) -> None:
        raise KeyboardInterrupt

    with handled(interrupt, (signal.SIGTERM,)):
        yield


def preemption_signal() -> int | None:
    """The signal by which submitit learns that its job must make room; None outside of its jobs."""
    if "SUBMITIT_EXECUTOR" not in os.environ:
        return None
    return getattr(signal, "SIG" + os.environ.get("SUBMITIT_PREEMPT_SIGNAL", "USR2"), None)
