"""Processes that fetch tiny data at once or die of it, begun from one that has imported what they need."""

import multiprocessing
import os
from multiprocessing import forkserver
from pathlib import Path

from tests.data import tiny_data
from tests.processes import HANG

SETUP = """
import os
from multiprocessing import forkserver
from pathlib import Path
from tests.data.tiny_data import fetch, tiny_arrays, tiny_spec
from varnet.data import DATASETS, vision
DATASETS["mnist"] = tiny_spec("mnist", tiny_arrays("mnist"))
data = Path({data!r})
"""


def begin() -> None:
    """Start the process from which the others are forked, with the variables that there are now."""
    forkserver.set_forkserver_preload([__name__])
    forkserver.ensure_running()


def start(data: Path, code: str, errors: Path) -> multiprocessing.Process:
    """Code that knows its folder as `data`; what it prints about errors goes to a file."""
    process = multiprocessing.get_context("forkserver").Process(
        target=_execute, args=(SETUP.format(data=str(data)) + code, errors)
    )
    process.start()
    return process


def _execute(code: str, errors: Path) -> None:
    with open(errors, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 2)
    exec(compile(code, tiny_data.__name__, "exec"), {})


def code_of(process: multiprocessing.Process) -> int:
    """How it ended."""
    process.join(HANG)
    assert process.exitcode is not None, "it hangs"
    return process.exitcode
