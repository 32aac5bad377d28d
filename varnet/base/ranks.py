"""Which of the processes of one run this is, as torchrun tells it: known without torch."""

import os


def launched() -> bool:
    """Whether torchrun, or something like it, has started this process as one of several."""
    known = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()
    return known and int(os.environ["WORLD_SIZE"]) > 1


def rank() -> int:
    return int(os.environ["RANK"]) if launched() else 0
