"""The phase transition of variance networks against log alpha itself: Figures 3 and 8 without the optimizer's speed.

Over epochs a larger learning rate of log alpha moves the transition; against log alpha it stays where it is.
"""

from typing import TYPE_CHECKING

from varnet.base import plots
from varnet.paper.drawing import panels
from varnet.paper.library import Library
from varnet.paper.targets import Drawn
from varnet.paper.transition import Curves, runs_of, transition

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLACES = {"mean": "log alpha, mean of the variational layers", "dense1": "log alpha of dense1"}
STYLES = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"))  # of a line and its points, for each prior


def of_priors(library: Library, *priors: str) -> Drawn:
    """Draw all priors of which there are runs into the same panels."""
    return against_log_alpha(runs_of(library, *priors))


def against_log_alpha(runs: dict[str, Curves]) -> Drawn:
    """Draw every prediction's accuracy against log alpha, a line for each seed: its points in the order of training."""
    from matplotlib.lines import Line2D

    chart, axes = panels(len(PLACES), width=5.6, height=4.4, columns=len(PLACES), sharey="row")
    for axis, (place, title) in zip(axes, PLACES.items(), strict=True):
        for (_line, style), found in zip(_styled(runs), runs.values(), strict=True):
            _draw(axis, found, place, style)
        axis.set(xlabel=title, ylim=(0, 101))
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("test accuracy, %")
    samples = next(iter(runs.values()))[0][1]["samples"]
    colours = [Line2D([], [], color=c, lw=2, label=n.format(k=samples)) for n, c in plots.CURVES.values()]
    lines = [Line2D([], [], color="black", label=label, **style) for label, style in _styled(runs)]
    axes[-1].legend(handles=colours + lines, frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Drawn(chart, {label: crossings(_fullest(found)) for label, found in runs.items()})


def _styled(runs: dict[str, Curves]) -> list[tuple[str, dict]]:
    """(label with the number of runs, style) of each prior."""
    styles = [STYLES[i % len(STYLES)] for i in range(len(runs))]
    return [
        (f"{label} (n = {len(found)})", {"ls": line, "marker": marker, "ms": 3.5, "lw": 1.4})
        for (label, found), (line, marker) in zip(runs.items(), styles, strict=True)
    ]


def _draw(axis: "Axes", found: Curves, place: str, style: dict) -> None:
    for history, _ in found:
        for key, (_name, colour) in plots.CURVES.items():
            points = [
                (x, row[key]) for row in history if row.get(key) is not None and (x := at(row, place)) is not None
            ]
            if points:
                axis.plot(*zip(*points, strict=True), color=colour, alpha=0.85, **style)


def at(row: dict, place: str) -> float | None:
    """Log alpha at an epoch: of one layer, or the mean over the layers, each of which counts as one."""
    alphas = {name: found["mean"] for name, found in row.get("log_alpha", {}).items()}
    if place == "mean":
        return sum(alphas.values()) / len(alphas) if alphas else None
    return alphas.get(place)


def _fullest(found: Curves) -> list[dict]:
    """The history with the most evaluations."""
    return max((history for history, _ in found), key=lambda rows: sum(row.get("acc_k") is not None for row in rows))


def crossings(history: list[dict]) -> dict:
    """Between which values of log alpha the zero-mean network starts to work and the deterministic one stops: those at
    the evaluations before and after; None before the first."""
    rows = [row for row in history if row.get("acc_zero_mean_k") is not None]
    epochs = [row["epoch"] for row in rows]
    numbers = {}
    for event, epoch in transition(history).items():
        i = epochs.index(epoch) if epoch in epochs else None
        pair = [] if i is None else [rows[i - 1] if i else None, rows[i]]
        numbers[event.replace("from epoch", "between log alpha")] = {
            place: [row and _rounded(at(row, place)) for row in pair] or None for place in PLACES
        }
    return numbers


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
