"""What the scripts' command lines share: the order of flags, and how a script ends."""

import sys
from collections.abc import Callable

from omegaconf.errors import OmegaConfBaseException

from varnet.checkpoint import CheckpointError
from varnet.data import DataError

WITH_VALUE = {  # of Hydra's flags
    "--cfg", "-c", "--package", "-p", "--info", "-i", "--experimental-rerun", "--config-path", "-cp", "--config-name",
    "-cn", "--config-dir", "-cd",
}  # fmt: skip


def flags_first(arguments: list[str]) -> list[str]:
    """Hydra takes no flag between overrides. A flag keeps its value, which is no key=value."""
    flags, overrides = [], []
    for i, argument in enumerate(arguments):
        valued = i > 0 and arguments[i - 1] in WITH_VALUE and "=" not in argument
        (flags if argument.startswith("-") or valued else overrides).append(argument)
    return flags + overrides


def guarded(work: Callable[[], None]) -> int:
    """The exit code of work(); what the user can mend is said in one sentence."""
    try:
        work()
    except (CheckpointError, DataError, ValueError, OmegaConfBaseException) as error:  # a ConfigError is a ValueError
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.strerror or error} ({error.filename}): use out=FOLDER for another place", file=sys.stderr)
        return 4
    return 0
