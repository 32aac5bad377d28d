"""Mean and standard deviation over seeds of finished runs, by what was swept: python scripts/report.py outputs

Prints the table and writes table.md, table.csv and curves.png to the folder --out. Runs that are not finished are only
listed.
"""

from pathlib import Path

from varnet.base import plots, terminal
from varnet.base.files import write_atomically
from varnet.base.invocation import as_typed
from varnet.launch.ending import Parser, refused
from varnet.report import groups as report


def main(arguments: list[str]) -> int:
    parser = Parser(as_typed(__doc__))
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folders of runs, or folders that hold them")
    parser.add_argument(
        "--metrics", default=",".join(report.METRICS), help="columns of the table: names in metrics.json"
    )
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder of the files (default: report)")
    options = parser.parse_args(arguments)
    terminal.tolerate()
    try:
        runs = report.read(options.folders)
        groups = report.group(runs)
        rows = report.table(groups, options.metrics.split(","))
        show(rows)
        terminal.show(f"not finished, not counted: {line}" for line in report.incomplete(runs))
        write(options.out, rows, groups, runs)
    except (ValueError, OSError) as error:  # a ConfigError is a ValueError
        return refused(error)
    terminal.show([f"written to {options.out}: table.md, table.csv, curves.png"])
    return 0


def show(rows: report.Table) -> None:
    """Print the table."""
    last = rows[0].index("n")
    columns = {column: "left" if i < last else "right" for i, column in enumerate(rows[0])}
    terminal.console(200).print(terminal.table(columns, rows[1:]))


def write(folder: Path, rows: report.Table, groups: list[report.Group], runs: list[report.Run]) -> None:
    """Leave table and curves in a folder."""
    text = report.markdown(rows)
    if left := report.incomplete(runs):
        text += "\nNot finished, not counted:\n\n" + "".join(f"- {line}\n" for line in left)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "table.md", text.encode())
    write_atomically(folder / "table.csv", report.as_csv(groups).encode())
    write_atomically(folder / "curves.png", plots.rendered(plots.by_epoch(groups)))
