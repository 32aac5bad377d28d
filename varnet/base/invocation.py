"""How varnet was started, for messages that tell the user what to type."""

import sys
from pathlib import Path

SCRIPTS = {"train": "train.py", "fetch": "scripts/fetch_data.py"}  # of a command that has not a script of its name


def command(name: str) -> str:
    """`varnet train` for the installed command, `python train.py` in a checkout."""
    if Path(sys.argv[0]).name.split(" ")[0] in ("varnet", "varnet.exe"):
        return f"varnet {name}"
    return f"python {SCRIPTS.get(name, f'scripts/{name}.py')}"
