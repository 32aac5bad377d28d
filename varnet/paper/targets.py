"""What can be rebuilt: tables and figures, each registered by a file of this folder."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from varnet.report.row import Row
from varnet.report.tables import Published

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from varnet.paper.library import Library


class Drawn(NamedTuple):
    """What a figure is made into."""

    figure: "Figure"
    numbers: dict  # what can be read off it
    rows: Sequence[Row] = ()  # of a table beside it
    gif: bytes | None = None


Draw = Callable[["Library"], Drawn | None]
SeedRule = Callable[[int, str], int]  # how many seeds a target takes, from the number asked for and the scale


def as_asked(asked: int, _scale: str) -> int:
    """So many seeds as the user asks for."""
    return asked


def one_seed(_asked: int, _scale: str) -> int:
    """One run, however many are asked for."""
    return 1


class Part(NamedTuple):
    """A row of a figure whose runs are none of train.py, for the list of what is missing."""

    row: str  # its label begins so
    runs: int  # that it takes; 0: it is computed


class Target(NamedTuple):
    """A table or a figure: its experiments, and its published numbers or what draws it from finished runs."""

    name: str  # on the command line, and of its files
    title: str
    experiments: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()
    draw: Draw | None = None
    seeds: SeedRule = as_asked
    once: tuple[str, ...] = ()  # experiments of which one run is enough
    from_history: bool = False  # curves are enough, as records have them; else it takes the runs' folders
    parts: tuple[Part, ...] = ()  # of a figure without experiments
    optional: tuple[str, ...] = ()  # experiments whose runs are shown too, if there are any, and never asked for

    @property
    def every(self) -> tuple[str, ...]:
        return self.experiments + self.optional


TARGETS: dict[str, Target] = {}


def table(name: str, title: str, published: Iterable[Published]) -> None:
    """Register a table of means over seeds beside published numbers."""
    lines = tuple(published)
    _add(Target(name, title, tuple(dict.fromkeys(line.experiment for line in lines if line.experiment)), lines))


def figure(
    name: str, title: str, *experiments: str, seeds: SeedRule = as_asked, once: tuple[str, ...] = (),
    from_history: bool = False, parts: Iterable[Part] = (), optional: tuple[str, ...] = (),
) -> Callable[[Draw], Draw]:  # fmt: skip
    """Register the function below as what draws a figure; it gives None where there is nothing to draw."""

    def register(draw: Draw) -> Draw:
        _add(Target(name, title, experiments, (), draw, seeds, once, from_history, tuple(parts), optional))
        return draw

    return register


def _add(target: Target) -> None:
    if target.name in TARGETS:
        raise ValueError(f"two targets are called {target.name}: give one of them another name")
    TARGETS[target.name] = target


def found() -> dict[str, Target]:
    """All that the files of this folder register: tables first, those of the paper by their number, others by name."""
    from varnet import paper

    for module in pkgutil.iter_modules(paper.__path__, "varnet.paper."):
        importlib.import_module(module.name)
    ordered = sorted(TARGETS.values(), key=_place)
    TARGETS.clear()
    TARGETS.update({target.name: target for target in ordered})
    return TARGETS


def _place(target: Target) -> tuple[bool, bool, int, str]:
    numbered = re.match(r"(?:table|fig)(\d+)", target.name)
    return target.draw is not None, numbered is None, int(numbered[1]) if numbered else 0, target.name
