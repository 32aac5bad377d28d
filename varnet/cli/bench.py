"""Measure speed as ratios within one run, because machines are noisy: python scripts/bench.py layers [--json FILE]

Every suite is a module of varnet/bench with `run(args)` -> a list of rows, or a dict of such lists; a row is a
dict with the same keys throughout its list. Cases are interleaved and their medians compared, so that a busy machine
slows all of them alike.
"""

import argparse
import importlib
import json
from pathlib import Path

from varnet.base import terminal
from varnet.base.invocation import as_typed
from varnet.launch.ending import Parser, guarded

SUITES = ("layers", "data", "step", "evaluation", "attack", "compress")


def show(title: str, rows: list[dict]) -> None:
    columns = {key: "left" if isinstance(value, str) else "right" for key, value in rows[0].items()}
    cells = [
        [f"{v:.3g}" if isinstance(v, float) else "" if v is None else str(v) for v in row.values()] for row in rows
    ]
    terminal.console(120).print(terminal.table(columns, cells, title))


def main(arguments: list[str]) -> int:
    parser = Parser(as_typed(__doc__))
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--repeats", type=int, help="rounds; the default is the suite's own")
    parser.add_argument("--figure", type=Path, help="evaluation: draw the growth with K into this file")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument("--only", default="", help="step: the cases whose names have these words in them")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="step: of VGG-like; default fp32")
    parser.add_argument("--batch", type=int, default=100, help="step: images of VGG-like at once; default 100")
    args = parser.parse_args(arguments)
    if not 2 <= args.batch <= 1200:
        parser.error("--batch takes a whole number from 2 to 1200")
    if not (1 <= args.threads <= 1024 and (args.repeats is None or 1 <= args.repeats <= 10**6)):
        parser.error("--threads and --repeats take whole numbers from 1 to 1024 and 1000000")
    for key in ("json", "figure"):
        if (path := getattr(args, key)) and not path.resolve().parent.is_dir():
            parser.error(f"--{key} {path}: its folder does not exist")

    return guarded(lambda: measure(args))


def measure(args: argparse.Namespace) -> None:
    """Run the suite, show its rows and write them."""
    import torch

    from varnet.base.device import tune_cpu
    from varnet.base.files import write_atomically

    tune_cpu(args.threads)
    tables = importlib.import_module(f"varnet.bench.{args.suite}").run(args)
    tables = tables if isinstance(tables, dict) else {"rows": tables}
    for name, rows in tables.items():
        title = args.suite if name == "rows" else f"{args.suite}, {name}"
        show(f"{title}: {args.threads} thread(s), torch {torch.__version__}", rows)
    if args.json:
        content = {"suite": args.suite, "threads": args.threads, "torch": torch.__version__, **tables}
        write_atomically(args.json, (json.dumps(content, indent=2) + "\n").encode())
