"""Sources that torch.fx keeps of every module it has compiled, for tracebacks, as long as the process lives.

A run cuts its network anew at every evaluation: some ten modules, which were 30 kB of memory an epoch.
"""

import contextlib
import linecache
from collections.abc import Iterator

from torch.fx import graph_module


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Inside, modules are compiled; their sources are not kept."""
    kept = sources()
    before = set().union(*kept)
    try:
        yield
    finally:
        for cache in kept:
            for name in cache.keys() - before:
                if "eval_with_key" in name:
                    cache.pop(name, None)


def sources() -> list[dict]:
    """Where they are: by file name in the standard library, and in torch, which may keep them otherwise one day."""
    own = getattr(getattr(graph_module, "_loader", None), "eval_cache", None)
    return [linecache.cache, own] if isinstance(own, dict) else [linecache.cache]
