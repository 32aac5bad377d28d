"""How varnet was started, for messages that tell the user what to type."""

import os
import re
from pathlib import Path

SCRIPTS = {"train": "train.py", "fetch": "scripts/fetch_data.py"}  # of a command that has not a script of its name
NAMES = {"fetch_data": "fetch"}  # and of a script that has not the name of its command
STARTED = "VARNET_STARTED_AS"  # a variable, because the processes of a sweep have command lines of their own
CHECKOUT = (Path(__file__).resolve().parents[2] / "train.py").is_file()
SCRIPT = re.compile(r"(?:python )?(?:train|scripts/(\w+))\.py")


def is_command() -> bool:
    """Whether the user types `varnet train`; without a checkout there is nothing else to type."""
    return os.environ.get(STARTED) == "varnet" or not CHECKOUT


def command(name: str) -> str:
    """`varnet train` for the installed command, `python train.py` in a checkout."""
    return f"varnet {name}" if is_command() else f"python {SCRIPTS.get(name, f'scripts/{name}.py')}"


def as_typed(text: str) -> str:
    """A text that names scripts (train.py, python scripts/report.py), in the words of how varnet was started."""
    if not is_command():
        return text
    return SCRIPT.sub(lambda found: f"varnet {NAMES.get(found[1], found[1]) or 'train'}", text)
