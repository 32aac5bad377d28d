"""Train one network and leave its numbers in a folder: python train.py model=vgg param=layer prior=loguniform

The story is in varnet/cli/train.py: main(cfg) -> run(cfg) -> metrics.
"""

import sys

from varnet.cli.train import command_line, main, run

__all__ = ["main", "run"]

if __name__ == "__main__":
    command_line(sys.argv[1:])
