"""Turn a sparse run into a small and fast network: python scripts/compress.py --help (varnet/cli/compress.py)."""

import sys

from varnet.cli.compress import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
