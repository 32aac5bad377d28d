"""Marks in a document, and what the rows of a folder say between them; the text around a mark is written by hand.

<!-- table: NAME -->      the rows of NAME.json; `rows=A;B` takes only rows that begin so, `metrics=a;b` only those
                          metrics, `scale=full` only that scale (or one of several, `;` between them); `columns=rows`
                          turns it round: a column for each row, `columns=metrics` one for each metric
<!-- modes: NAME -->      the networks of NAME.json with both modes of batch norm, beside those of `published=TABLE`
<!-- verdict: NAME -->    how many numbers of full scale are reproduced, not shown, contradicted; inside of a line

Each ends at <!-- end -->.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from varnet.report.modes import modes
from varnet.report.row import Row, read
from varnet.report.tables import markdown
from varnet.report.transposed import transposed

MARK = re.compile(
    r"(<!-- (?P<kind>table|modes|verdict): (?P<name>\w+)(?P<options>[^>]*?) -->).*?(<!-- end -->)", re.DOTALL
)
VERDICTS = ("reproduced", "not shown", "contradicted")


def has_marks(text: str) -> bool:
    """Whether something in the text is to be filled in."""
    return bool(MARK.search(text))


def filled(text: str, folder: Path) -> str:
    """The text with its marks filled as the JSON in the folder says."""

    def between(mark: re.Match[str]) -> str:
        path, options = folder / f"{mark['name']}.json", _options(mark["options"])
        if mark["kind"] == "verdict":
            return f"{mark[1]}{verdicts(read(path))}{mark[5]}"
        if mark["kind"] == "modes":
            return f"{mark[1]}\n\n{modes(path, read(folder / (options['published'] + '.json')))}\n{mark[5]}"
        return f"{mark[1]}\n\n{table(path, options)}\n{mark[5]}"

    return MARK.sub(between, text)


def _options(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in re.findall(r"\w+=[^=]+?(?=\s+\w+=|\s*$)", text))


def table(path: Path, chosen: dict[str, str]) -> str:
    """The Markdown of a mark's table."""
    rows = [row for row in read(path) if _fits(row, chosen)]
    if not rows:
        return "*Not run yet.*\n"
    return transposed(rows, chosen["columns"]) if "columns" in chosen else markdown(rows)


def _fits(row: Row, chosen: dict[str, str]) -> bool:
    if "rows" in chosen and not row.row.startswith(tuple(chosen["rows"].split(";"))):
        return False
    return all(
        value in chosen.get(key, value).split(";") for key, value in (("metrics", row.metric), ("scale", row.scale))
    )


def verdicts(rows: Iterable[Row]) -> str:
    """The counts in words; "not judged" where no row of full scale has a published number with a margin."""
    counts = Counter(row.verdict for row in rows if row.scale == "full")
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or "not judged"
