"""Rows as a small table: a column for each network and a line for each metric, or the other way round, and said once
what all have in common."""

from collections.abc import Iterable

from varnet.errors import ConfigError
from varnet.report.row import Row
from varnet.report.tables import HEADINGS, NOT_RUN, cells, label, number, ours


def transposed(rows: Iterable[Row], across: str = "rows") -> str:
    """Markdown. A cell is `ours (published)`; below stand scale, epochs, precision and the number of runs. `across` are
    the columns: rows or metrics."""
    rows = list(rows)
    networks, metrics = dict.fromkeys(row.row for row in rows), dict.fromkeys(row.metric for row in rows)
    found = {(row.row, row.metric): row for row in rows}
    if len(found) < len(rows):
        raise ConfigError("several rows have one name and metric: choose one scale, e.g. scale=full")
    lines = [["", *networks], *([label(m), *(_cell(found.get((c, m))) for c in networks)] for m in metrics)]
    if across == "metrics":
        lines = [list(line) for line in zip(*lines, strict=True)]
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    own = [row for row in rows if row.scale != NOT_RUN]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *body, *(["", _conditions(own)] if own else [])]) + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    return ours(row) + ("" if row.published is None else f" ({number(row.published, row.metric)})")


def _conditions(rows: list[Row]) -> str:
    scale, n = (
        _by_column(rows, values)
        for values in ([cells(row)[HEADINGS.index("scale")] for row in rows], [row.n for row in rows])
    )
    return f"Ours (published); {scale}; n = {n}."


def _by_column(rows: list[Row], values: list[str] | list[int]) -> str:
    """A value that all columns share; else each value with its columns."""
    columns: dict[object, dict[str, None]] = {}
    for row, value in zip(rows, values, strict=True):
        columns.setdefault(value, {})[row.row] = None
    if len(columns) == 1:
        return str(values[0])
    return ", ".join(f"{value} ({', '.join(names)})" for value, names in columns.items())
