"""Rebuild tables and figures of the paper: python scripts/reproduce.py --help (varnet/cli/reproduce.py)."""

import sys

from varnet.cli.reproduce import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
