"""Measure speed as ratios within one run: python scripts/bench.py --help (varnet/cli/bench.py)."""

import sys

from varnet.cli.bench import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
