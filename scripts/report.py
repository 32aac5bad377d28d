"""Tables and curves of finished runs: python scripts/report.py --help (varnet/cli/report.py)."""

import sys

from varnet.cli.report import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
