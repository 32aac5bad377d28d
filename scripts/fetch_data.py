"""Fetch and verify datasets: python scripts/fetch_data.py --help (varnet/cli/fetch.py)."""

import sys

from varnet.cli.fetch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
