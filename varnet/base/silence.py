"""Which process of a run is silent while the others wait for it.

Every process counts in the store at which they have met; a thread of each looks whether the others still count. One
that is busy counts; one that is stopped, or whose machine is gone, does not.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from varnet.errors import RankLost

AFTER = 60.0  # seconds after which a process is silent


def warn(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


class Watch:
    """Counts for one rank and listens to the others. The store has set(key, text), get(key) and check([key])."""

    def __init__(
        self, store: Any, rank: int, size: int, patience: float, say: Callable[[str], None] = warn,
        clock: Callable[[], float] = time.monotonic, after: float | None = None,
    ):  # fmt: skip
        """patience: seconds for which the others wait."""
        self.store, self.rank, self.patience, self.say, self.clock = store, rank, patience, say, clock
        self.after = AFTER if after is None else after
        self.count, self.since, self.looked = 0, None, clock()
        self.heard: dict[int, tuple[bytes | None, float]] = {
            other: (None, self.looked) for other in range(size) if other != rank
        }
        self.silent: list[int] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextlib.contextmanager
    def running(self) -> Iterator["Watch"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._end.set()
            self._thread.join(timeout=1.0)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what needs all ranks. If it fails, because one is gone or for the time it took, the reason is said."""
        self.since = self.clock()
        try:
            yield
        except RuntimeError as error:  # what gloo and nccl raise
            if not self.silent:
                raise
            seconds = self.clock() - self.since
            raise RankLost(
                f"{_named(self.silent)} silent for {_time(seconds)}: see whether its machine is well, or give it more "
                "time with patience_minutes"
            ) from error
        finally:
            self.since = None

    def look(self) -> None:
        """Count, and say who has become silent or is back: the first who is not silent says it for all."""
        now, before, self.looked = self.clock(), self.looked, self.clock()
        self.count += 1
        self.store.set(f"count {self.rank}", str(self.count))
        own_pause = now - before > self.after / 2  # it was stopped itself, and knows nothing of the others
        for other, (known, then) in self.heard.items():
            key = f"count {other}"
            found = self.store.get(key) if self.store.check([key]) else None
            self.heard[other] = (found, now if found != known or own_pause else then)
        since = self.since
        if since is None or now - since < self.after:
            silent = []
        else:
            silent = [other for other, (_, then) in self.heard.items() if now - then >= self.after]
        self._tell(silent, since, now)
        self.silent = silent

    def _tell(self, silent: list[int], since: float | None, now: float) -> None:
        if self.rank != min({self.rank, *self.heard} - set(silent)):
            return
        if new := [rank for rank in silent if rank not in self.silent]:
            left = self.patience - (now - since) if since is not None else self.patience
            self.say(
                f"{_named(new)} silent for {_time(self.after)}: the others wait for up to {_time(max(left, 0))} more "
                "(patience_minutes)"
            )
        for rank in self.silent:
            if rank not in silent and now - self.heard[rank][1] < self.after:
                self.say(f"rank {rank} is back")

    def _run(self) -> None:
        with contextlib.suppress(RuntimeError):  # the store is gone, and so is the run
            while not self._end.wait(self.after / 6):
                self.look()


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]} is" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} are"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"
