"""A progress bar on a terminal's stderr; nothing elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Yields `advance(amount)`; without a total the bar only shows that something is going on."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=total)
        yield lambda amount: bar.advance(task, amount)
