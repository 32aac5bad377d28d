"""Marks in a document, and what the rows of a folder say between them; the text around a mark is written by hand.

<!-- table: NAME -->      the rows of NAME.json; `rows=A;B` takes only rows that begin so, `metrics=a;b` only those
                          metrics, `scale=full` only that scale; `columns=rows` turns it round: a column for each row
<!-- verdict: NAME -->    how many numbers of full scale are reproduced, not shown, contradicted; inside of a line

Each ends at <!-- end -->.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from varnet.report.row import Row, read
from varnet.report.tables import markdown
from varnet.report.transposed import transposed

MARK = re.compile(r"(<!-- (?P<kind>table|verdict): (?P<name>\w+)(?P<options>[^>]*?) -->).*?(<!-- end -->)", re.DOTALL)
VERDICTS = ("reproduced", "not shown", "contradicted")


def has_marks(text: str) -> bool:
    """Whether something in the text is to be filled in."""
    return bool(MARK.search(text))


def filled(text: str, folder: Path) -> str:
    """The text with its marks filled as the JSON in the folder says."""

    def between(mark: re.Match[str]) -> str:
        path = folder / f"{mark['name']}.json"
        found = verdicts(read(path)) if mark["kind"] == "verdict" else f"\n\n{table(path, mark['options'])}\n"
        return f"{mark[1]}{found}{mark[5]}"

    return MARK.sub(between, text)


def table(path: Path, options: str) -> str:
    """The Markdown of a mark's table."""
    chosen = dict(part.split("=", 1) for part in re.findall(r"\w+=[^=]+?(?=\s+\w+=|\s*$)", options))
    rows = [row for row in read(path) if _fits(row, chosen)]
    if not rows:
        return "*Not run yet.*\n"
    return transposed(rows) if chosen.get("columns") == "rows" else markdown(rows)


def _fits(row: Row, chosen: dict[str, str]) -> bool:
    if "rows" in chosen and not row.row.startswith(tuple(chosen["rows"].split(";"))):
        return False
    return row.metric in chosen.get("metrics", row.metric).split(";") and row.scale == chosen.get("scale", row.scale)


def verdicts(rows: Iterable[Row]) -> str:
    """The counts in words; "not judged" where no row of full scale has a published number with a margin."""
    counts = Counter(row.verdict for row in rows if row.scale == "full")
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or "not judged"
