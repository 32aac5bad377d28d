"""The command `varnet`, and a module for each of its subcommands. In a checkout train.py and scripts/ do the same."""

import importlib
import os
import sys
from difflib import get_close_matches

from varnet.base.invocation import STARTED
from varnet.base.text import plain_text

COMMANDS = {  # name -> (what it does, function of its module)
    "train": ("train one network, or sweep with -m", "command_line"),
    "evaluate": ("measure a finished run in every mode of prediction", "main"),
    "attack": ("attack finished runs by gradient", "main"),
    "report": ("tables and curves of finished runs, over their seeds", "main"),
    "reproduce": ("rebuild tables and figures of the paper", "main"),
    "compress": ("turn a sparse run into a small and fast network", "main"),
    "rl": ("exploration by parameter noise (Figure 6)", "command_line"),
    "fetch": ("fetch and verify datasets", "main"),
    "bench": ("measure speed as ratios within one run", "main"),
}


def help_text() -> str:
    lines = [f"  varnet {name:<10} {about}\n" for name, (about, _) in COMMANDS.items()]
    title, end = "varnet: variance networks and variational dropout", "varnet COMMAND --help tells more"
    return f"{title}\n\n{''.join(lines)}\n{end}; varnet --version\n"


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print(help_text(), end="")
        return
    if "--version" in sys.argv and name in ("--version", *COMMANDS):  # of a command too: Hydra would tell its own
        import varnet

        print(f"varnet {varnet.__version__}")
        return
    if name not in COMMANDS:
        close = get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(COMMANDS)}"
        print(f"error: there is no command {plain_text(name)}: {hint}", file=sys.stderr)
        sys.exit(2)
    os.environ[STARTED] = "varnet"
    sys.argv[:2] = [f"varnet {name}"]
    command = getattr(importlib.import_module(f"varnet.cli.{name}"), COMMANDS[name][1])
    sys.exit(command(sys.argv[1:]))
