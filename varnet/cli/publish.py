"""Fill the tables of RESULTS.md and README.md from docs/results/NAME.json: python scripts/publish.py [--check]

A table stands between <!-- table: NAME --> and <!-- end -->; `rows=A;B` after the name takes only rows that begin so,
`metrics=a;b` only those metrics, `scale=full` only that scale; `columns=rows` turns it round: a column for each row.
The text around it is written by hand. --check changes nothing and fails if a table is not what the JSON says.
"""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from varnet.runs.composing import PACKAGE

if TYPE_CHECKING:
    from varnet.report.row import Row

ROOT = PACKAGE.parent  # of the checkout
PAGES = ("RESULTS.md", "README.md")
MARK = re.compile(r"(<!-- table: (?P<name>\w+)(?P<options>[^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(name: str, options: str, folder: Path) -> str:
    """The Markdown of a mark's table."""
    from varnet.report.row import read
    from varnet.report.tables import markdown
    from varnet.report.transposed import transposed

    chosen = dict(part.split("=", 1) for part in re.findall(r"\w+=[^=]+?(?=\s+\w+=|\s*$)", options))
    rows = [row for row in read(folder / f"{name}.json") if fits(row, chosen)]
    if not rows:
        return "*Not run yet.*\n"
    return transposed(rows) if chosen.get("columns") == "rows" else markdown(rows)


def fits(row: "Row", chosen: dict[str, str]) -> bool:
    """Say whether a row is one of those that a mark chooses."""
    if "rows" in chosen and not row.row.startswith(tuple(chosen["rows"].split(";"))):
        return False
    return row.metric in chosen.get("metrics", row.metric).split(";") and row.scale == chosen.get("scale", row.scale)


def filled(text: str, folder: Path) -> str:
    """The text with its tables as the JSON in the folder says."""
    return MARK.sub(lambda m: m[1] + "\n" + table(m["name"], m["options"], folder) + "\n" + m[4], text)


def main(arguments: list[str]) -> int:
    folder, stale = ROOT / "docs" / "results", []
    for name in PAGES:
        old = (ROOT / name).read_text()
        new = filled(old, folder)
        if new != old:
            stale.append(name)
            if "--check" not in arguments:
                (ROOT / name).write_text(new)
    if stale and "--check" in arguments:
        print(f"error: {', '.join(stale)} differs from docs/results: run python scripts/publish.py", file=sys.stderr)
        return 1
    return 0
