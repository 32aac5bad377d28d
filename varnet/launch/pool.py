"""Many runs at a time, each in a process of its own: whatever happens to one, the others go on."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from varnet.base.parent import end_with_parent
from varnet.base.signals import Handlers, handled
from varnet.errors import Interrupted, one_line


class Outcome(NamedTuple):
    """How one of the runs ended."""

    result: Any = None
    error: str | None = None  # one sentence
    stopped: bool = False  # by a signal, after saving: no failure


def run_all(
    function: Callable,
    arguments: Sequence,
    jobs: int | None = None,
    done: Callable[[int, Outcome], None] | None = None,
    watch: Callable[[list[int]], None] | None = None,
) -> list[Outcome]:
    """function(argument) for each argument, at most `jobs` at a time; `done(index, outcome)` as they end, and every
    second `watch(indices of those that run)`.

    The function must be importable by name and its argument and result small: they travel through a pipe. SIGTERM and
    Ctrl-C reach the running ones, which may save before they end, and raise Interrupted once they have ended.
    """
    context = _context(function.__module__)
    outcomes, waiting, running = [Outcome()] * len(arguments), list(range(len(arguments))), {}
    stopped: list[int] = []

    def end(number: int, _before: Handlers) -> None:
        stopped.append(number)
        for process, _ in running.values():
            process.terminate()

    with handled(end), _leaving_none(running):
        while running or (waiting and not stopped):
            while waiting and not stopped and len(running) < (jobs or os.cpu_count() or 1):
                index = waiting.pop(0)
                running[index] = _start(context, function, arguments[index])
                if stopped:  # while it was starting, which takes seconds
                    running[index][0].terminate()
            wait([process.sentinel for process, _ in running.values()], timeout=1.0)
            for index, (process, connection) in list(running.items()):
                if connection.poll() or not process.is_alive():
                    outcomes[index] = _outcome(process, connection)
                    del running[index]
                    if done is not None:
                        done(index, outcomes[index])
            if watch is not None:
                watch(list(running))
    if stopped:
        raise Interrupted(stopped[0])
    return outcomes


@contextlib.contextmanager
def _leaving_none(running: dict) -> Iterator[None]:
    try:
        yield
    finally:
        for process, _ in running.values():
            process.terminate()


def _context(module: str):
    """Processes forked from a clean one that has imported the work's module already, where the system can do that."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([module])
    return context


def _start(context, function: Callable, argument: object) -> tuple[multiprocessing.Process, Connection]:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(function, argument, theirs))
    process.start()
    theirs.close()
    return process, ours


def _child(function: Callable, argument: object, connection: Connection) -> None:
    end_with_parent()
    try:
        outcome = Outcome(function(argument))
    except Interrupted as error:
        outcome = Outcome(error=f"{error}; saved", stopped=True)
    except (Exception, KeyboardInterrupt) as error:
        text = one_line(error) or "no reason given"
        outcome = Outcome(
            error=text if isinstance(error, ValueError | RuntimeError) else f"{type(error).__name__}: {text}"
        )
    connection.send(tuple(outcome))


def _outcome(process: multiprocessing.Process, connection: Connection) -> Outcome:
    try:
        outcome = Outcome(*connection.recv())
    except EOFError:
        outcome = None
    process.join()
    connection.close()
    if outcome is not None:
        return outcome
    code = process.exitcode
    reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return Outcome(error=f"its process ended without a result ({reason})")
