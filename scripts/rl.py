"""Exploration by parameter noise (Figure 6): python scripts/rl.py --help (varnet/cli/rl.py)."""

import sys

from varnet.cli.rl import command_line

if __name__ == "__main__":
    sys.exit(command_line(sys.argv[1:]))
