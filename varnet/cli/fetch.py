"""Fetch and verify datasets, say where they are and where they came from: python scripts/fetch_data.py mnist cifar10

The official MD5 sums are checked again on what the cached file holds, so this also verifies data fetched earlier.
"""

import logging
import sys

from varnet.base.invocation import as_typed
from varnet.base.terminal import tolerate
from varnet.data import DATASETS, NAMES
from varnet.data.fetch import fetch
from varnet.data.fetched import Fetched
from varnet.data.folder import data_folder
from varnet.errors import DataError, SourceError
from varnet.launch.ending import Parser, sentence


def report(name: str, data_dir: str | None) -> str:
    spec = DATASETS[name]
    if not isinstance(spec, Fetched):
        return f"{name}: nothing to fetch"
    got = fetch(spec, data_folder(data_dir))
    try:
        spec.official.verify(spec.official.encode(got.arrays))
    except SourceError as error:
        raise DataError(f"{got.path} is not the official {name}: {error}; delete it and fetch again.") from error
    images = len(got.arrays["train_y"]) + len(got.arrays["test_y"])
    where = f"{got.path} ({got.path.stat().st_size / 1e6:.0f} MB)" if got.path else "no cache (read-only folder)"
    checked = f"MD5 of {len(spec.official.files)} official files right"
    return f"{name}: {images:,} images, {checked}, from {got.source}, in {where}"


def main(arguments: list[str]) -> int:
    parser = Parser(as_typed(__doc__))
    parser.add_argument("names", nargs="+", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--data-dir", help="folder of the data; default: the variable VARNET_DATA, else data")
    args = parser.parse_args(arguments)
    tolerate()
    if unknown := [name for name in args.names if name not in NAMES]:
        parser.error(f"{unknown[0]} is not a dataset: choose from {', '.join(NAMES)}")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    failed = 0
    for name in args.names:
        try:
            print(report(name, args.data_dir), flush=True)
        except (DataError, OSError) as error:
            failed = 1
            print(f"{name}: {sentence(error)}", file=sys.stderr)
    return failed
