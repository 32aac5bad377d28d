"""Measure a finished run in every mode of prediction: python scripts/evaluate.py --help (varnet/cli/evaluate.py)."""

import sys

from varnet.cli.evaluate import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
