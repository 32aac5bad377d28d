"""Mean and standard deviation over seeds of finished runs, by what was swept: python scripts/report.py outputs

Prints the table and writes table.md, table.csv and curves.png to the folder --out. Runs that are not finished are only
listed.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from varnet.base import plots
from varnet.base.files import write_atomically
from varnet.base.invocation import as_typed
from varnet.errors import ConfigError
from varnet.report import groups as report


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=as_typed(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folders of runs, or folders that hold them")
    parser.add_argument(
        "--metrics", default=",".join(report.METRICS), help="columns of the table: names in metrics.json"
    )
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder of the files (default: report)")
    options = parser.parse_args(arguments)
    try:
        runs = report.read(options.folders)
        groups = report.group(runs)
        rows = report.table(groups, options.metrics.split(","))
        show(rows)
        for line in report.incomplete(runs):
            print(f"not finished, not counted: {line}")
        write(options.out, rows, groups, runs)
    except (ConfigError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"written to {options.out}: table.md, table.csv, curves.png")
    return 0


def show(rows: report.Table) -> None:
    """Print the table."""
    table = Table()
    for column in rows[0]:
        table.add_column(column, justify="left" if rows[0].index(column) < rows[0].index("n") else "right")
    for row in rows[1:]:
        table.add_row(*row)
    console = Console()
    Console(width=None if console.is_terminal else 200).print(table)


def write(folder: Path, rows: report.Table, groups: list[report.Group], runs: list[report.Run]) -> None:
    """Leave table and curves in a folder."""
    text = report.markdown(rows)
    if left := report.incomplete(runs):
        text += "\nNot finished, not counted:\n\n" + "".join(f"- {line}\n" for line in left)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "table.md", text.encode())
    write_atomically(folder / "table.csv", report.as_csv(groups).encode())
    write_atomically(folder / "curves.png", plots.rendered(plots.by_epoch(groups)))
