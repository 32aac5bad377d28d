"""What is shown on a terminal: tables and lines whose text is text, whatever brackets or escape sequences are in it."""

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from varnet.base.text import plain_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console(width: int | None = None) -> "Console":
    """Of stdout, without markup. width: where it is no terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else width, markup=False, emoji=False)


def table(columns: Mapping[str, str], rows: Iterable[Iterable[str]], title: str | None = None) -> "Table":
    """columns: heading -> left or right"""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title and Text(plain_text(title), style="table.title"), title_justify="left")
    for heading, side in columns.items():
        made.add_column(Text(plain_text(heading)), justify="left" if side == "left" else "right")
    for row in rows:
        made.add_row(*(Text(plain_text(cell)) for cell in row))
    return made


def show(lines: Iterable[str], width: int | None = None) -> None:
    """Whole lines, which the terminal breaks where it has to."""
    to = console(width)
    for line in lines:
        to.print(plain_text(line), highlight=False, soft_wrap=True)


def tolerate() -> None:
    """Write out what the terminal's encoding has not got: a path that is no UTF-8, the ± of a table under LC_ALL=C."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a test's or a notebook's may be of another kind
            stream.reconfigure(errors="backslashreplace")
