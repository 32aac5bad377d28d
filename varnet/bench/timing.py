"""Cases measured in turn, so that a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable


def interleaved(cases: dict[str, Callable[[], object]], repeats: int, warmup: int = 3) -> dict[str, float]:
    """Median seconds of each case; one call of every case per round."""
    for case in cases.values():
        for _ in range(warmup):
            case()
    seconds = {name: [] for name in cases}
    for _ in range(repeats):
        for name, case in cases.items():
            start = time.perf_counter()
            case()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}
