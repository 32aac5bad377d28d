"""How a script that looks at finished runs ends: what the user can mend is said in one sentence."""

import sys
from collections.abc import Callable

from omegaconf.errors import OmegaConfBaseException

from varnet.checkpoint import CheckpointError
from varnet.data import DataError


def guarded(work: Callable[[], None]) -> int:
    """The exit code of work()."""
    try:
        work()
    except (CheckpointError, DataError, ValueError, OmegaConfBaseException) as error:  # a ConfigError is a ValueError
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.strerror or error} ({error.filename}): use out=FOLDER for another place", file=sys.stderr)
        return 4
    return 0
