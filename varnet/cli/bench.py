"""Measure speed as ratios within one run, because machines are noisy: python scripts/bench.py layers [--json FILE]

Every suite is a module of varnet/bench with `run(args)` -> a list of rows, or a dict of such lists; a row is a
dict with the same keys throughout its list. Cases are interleaved and their medians compared, so that a busy machine
slows all of them alike.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

from varnet.base.invocation import as_typed
from varnet.errors import ConfigError

SUITES = ("layers", "data", "step", "evaluation", "attack", "compress")


def show(title: str, rows: list[dict]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for key in rows[0]:
        table.add_column(key, justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else "" if v is None else str(v) for v in row.values()))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=as_typed(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--repeats", type=int, help="rounds; the default is the suite's own")
    parser.add_argument("--figure", type=Path, help="evaluation: draw the growth with K into this file")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument("--only", default="", help="step: the cases whose names have these words in them")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="step: of VGG-like; default fp32")
    parser.add_argument("--batch", type=int, default=100, help="step: images of VGG-like at once; default 100")
    args = parser.parse_args(arguments)
    if args.batch < 2 or args.batch > 1200:
        parser.error("--batch takes a whole number from 2 to 1200")
    if args.threads < 1 or (args.repeats is not None and args.repeats < 1):
        parser.error("--threads and --repeats take whole numbers from 1")
    for key in ("json", "figure"):
        if (path := getattr(args, key)) and not path.resolve().parent.is_dir():
            parser.error(f"--{key} {path}: its folder does not exist")

    import torch

    from varnet.base.device import tune_cpu
    from varnet.base.files import write_atomically

    tune_cpu(args.threads)
    try:
        tables = importlib.import_module(f"varnet.bench.{args.suite}").run(args)
    except ConfigError as error:
        parser.error(str(error))
    tables = tables if isinstance(tables, dict) else {"rows": tables}
    for name, rows in tables.items():
        title = args.suite if name == "rows" else f"{args.suite}, {name}"
        show(f"{title}: {args.threads} thread(s), torch {torch.__version__}", rows)
    if args.json:
        content = {"suite": args.suite, "threads": args.threads, "torch": torch.__version__, **tables}
        write_atomically(args.json, (json.dumps(content, indent=2) + "\n").encode())
