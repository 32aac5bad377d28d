"""Attack finished runs by gradient: python scripts/attack.py --help (varnet/cli/attack.py)."""

import sys

from varnet.cli.attack import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
