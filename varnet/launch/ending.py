"""How a command ends: with one sentence and an exit code."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from omegaconf.errors import OmegaConfBaseException

from varnet.base.ranks import rank
from varnet.base.terminal import tolerate
from varnet.base.text import plain_text
from varnet.errors import CheckpointError, DataError, Stopped, one_line


def sentence(message: object) -> str:
    """One line, whatever names from elsewhere are in it."""
    return plain_text(one_line(message))


def refused(error: object, code: int = 2) -> int:
    """Say what is wrong; the exit code."""
    print(f"error: {sentence(error)}", file=sys.stderr, flush=True)
    return code


class Parser(argparse.ArgumentParser):
    """Of a command that takes flags; what does not fit is one sentence here, too."""

    def __init__(self, description: str) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        sys.exit(refused(f"{message}; {self.prog} --help tells more"))


def stop(message: object, code: int, known: bool = True) -> NoReturn:
    """End with one sentence; what all processes of a run know is said by the first of them."""
    own = rank()
    if own == 0 or not known:
        place = f"rank {own}: " if own > 0 else ""
        print(place + ("error: " if code < 128 else "") + sentence(message), file=sys.stderr, flush=True)
    sys.exit(code)


def leave(code: int) -> NoReturn:
    """End without what libraries do at the end of a process. All is written and said; Ray, stopped by a signal, would
    abort the process and so replace its exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def stopped_in_a_sentence(attempt: Callable[[], dict]) -> dict:
    """attempt(), ending the process where it does not go on."""
    try:
        return attempt()
    except Stopped as error:
        stop(error, error.code, known=getattr(error.__cause__, "shared", False))


def guarded(work: Callable[[], None]) -> int:
    """The exit code of work(); what the user can mend is said in one sentence."""
    tolerate()
    try:
        work()
    except (CheckpointError, DataError, ValueError, OmegaConfBaseException) as error:  # a ConfigError is a ValueError
        return refused(error)
    except OSError as error:
        return unwritable(error)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


def unwritable(error: OSError) -> int:
    """Say that out= cannot be used; the exit code."""
    return refused(f"{error.strerror or error} ({error.filename}): use out=FOLDER for another place", 4)
