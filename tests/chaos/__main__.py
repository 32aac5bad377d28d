"""python -m tests.chaos [minutes=60] [seed=N]: the faults in turn, and one line of figures; 1 if something was lost."""

import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from tests.chaos.kinds import KINDS, Done
from tests.chaos.world import World
from tests.conftest import no_pictures
from varnet.base import files

COUNTED = ("kills", "faults", "flips", "inputs")


def main(arguments: list[str]) -> int:
    given = dict(argument.partition("=")[::2] for argument in arguments)
    seed = int(given.get("seed") or time.time())
    print(f"seed={seed}", flush=True)
    return 1 if chaos(60 * float(given.get("minutes") or 60), random.Random(seed)) else 0


def chaos(seconds: float, rng: random.Random) -> int:
    """The number of faults that did harm."""
    torch.set_num_threads(1)
    logging.disable()
    files.PAUSES = (0.0, 0.0)
    counts, harm, begin = Counter(), Counter(), time.monotonic()
    with tempfile.TemporaryDirectory() as place, no_pictures():
        world = World(Path(place))
        while time.monotonic() - begin < seconds or not counts:
            for kind, times in KINDS.items():
                for _ in range(times):
                    tell(kind(world, rng), counts, harm)
    tried = ", ".join(f"{counts[kind]} {kind}" for kind in COUNTED)
    minutes = (time.monotonic() - begin) / 60
    print(f"chaos: {tried} in {minutes:.1f} min; {harm['lost']} lost; {harm['let in']} let in", flush=True)
    return sum(harm.values())


def tell(done: Done, counts: Counter, harm: Counter) -> None:
    """Count it; what did harm is printed, to be tried again."""
    counts[done.kind] += done.times
    for name, reason in (("lost", done.lost), ("let in", done.let_in)):
        if reason is not None:
            harm[name] += 1
            print(f"{name}: {done.kind}: {done.what}: {reason}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
