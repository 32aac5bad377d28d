"""Sparse variational dropout of the VGG-like network by its width: error and sparsity (a plot of the lectures).

At full scale every network is trained as published, 550 epochs with binary dropout and 200 of sparse variational
dropout; at the small one by schedules of our own, 40 epochs each.
"""

import statistics
from typing import TYPE_CHECKING

from varnet.paper.drawing import panels
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, figure
from varnet.report.tables import Published, name_at, rows_of, value_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTHS = {0.25: "w025", 0.5: "w05"}
ORIGINAL, SPARSE = "original_vgg_{}", "sparse_vgg_{}"
METRICS = ("error", "sparsity_all", "compression")  # of the sparse network, without the weights past the threshold
EXPERIMENTS = [kind.format(tag) for tag in WIDTHS.values() for kind in (ORIGINAL, SPARSE)]
Points = dict[float, list[float]]  # width -> a value for each seed


def lines() -> list[Published]:
    """The numbers of the table; of the published ones there is only a plot."""
    found = []
    for width, tag in WIDTHS.items():
        found.append(Published(f"width {width:g}, original", ORIGINAL.format(tag), "error", None))
        row = f"width {width:g}, sparse VD"
        found += [Published(row, SPARSE.format(tag), f"pruned.{metric}", None) for metric in METRICS]
    return found


@figure(
    "width", "Sparse variational dropout by width: error and sparsity, VGG-like on CIFAR-10", *EXPERIMENTS,
    from_history=True,
)  # fmt: skip
def draw(library: Library) -> Drawn:
    """Error of both networks and sparsity of the sparse one, against the width."""
    chart, (left, right) = panels(2, width=4.4, height=3.4)
    curves = {
        "error of the original, %": (left, points(library, ORIGINAL, "error"), "#8c8c8c"),
        "error with sparse VD, %": (left, points(library, SPARSE, "pruned.error"), "#c44e52"),
        "weights removed, %": (right, points(library, SPARSE, "pruned.sparsity_all"), "#4c72b0"),
    }
    for label, (axis, found, colour) in curves.items():
        _draw(axis, found, label, colour)
    left.set_ylabel("test error, %")
    right.set_ylabel("sparsity, %")
    numbers = {
        label: {f"{width:g}": values for width, values in found.items()} for label, (_, found, _) in curves.items()
    }
    return Drawn(chart, numbers, rows_of(lines(), library.metrics))


def points(library: Library, kind: str, metric: str) -> Points:
    """The values of every run at this scale, by width."""
    found: Points = {}
    for width, tag in WIDTHS.items():
        runs = library.metrics(name_at(kind.format(tag), library.scale))
        values = [value for run in runs if (value := value_of(run, metric)) is not None]
        found |= {width: values} if values else {}
    return found


def _draw(axis: "Axes", found: Points, label: str, colour: str) -> None:
    """The means, and every run."""
    axis.plot(list(found), [statistics.fmean(values) for values in found.values()], color=colour, lw=1.6, label=label)
    for width, values in found.items():
        axis.plot([width] * len(values), values, "o", color=colour, ms=4)
    axis.set_xlabel("width")
    axis.set_xticks(list(WIDTHS))
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=8)
