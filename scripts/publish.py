"""Take new runs into docs/results, fill the documents: python scripts/publish.py --help (varnet/cli/publish.py)."""

import sys

from varnet.cli.publish import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
