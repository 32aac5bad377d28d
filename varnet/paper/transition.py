"""The phase transition of variance networks, by epoch: what Figures 3 and 8 share."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from varnet.base import plots
from varnet.paper.drawing import panels
from varnet.paper.library import Library
from varnet.paper.targets import Drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curves = list[tuple[list[dict], dict]]  # (history, metrics) of each seed


def of_priors(library: Library, *priors: str) -> Drawn:
    """Draw a column for each prior of which there are runs."""
    return phase_transition(runs_of(library, *priors))


def runs_of(library: Library, *priors: str) -> dict[str, Curves]:
    """The curves of each prior of which there are runs."""
    found = {prior: library.histories(f"phase_{prior}") for prior in priors}
    return {prior: runs for prior, runs in found.items() if runs}


def phase_transition(runs: dict[str, Curves]) -> Drawn:
    """Draw, for each label, the mean over the seeds, with a band if there are several."""
    chart, axes = panels(2 * len(runs), width=4.4, height=2.8, columns=len(runs), sharex="col", sharey="row")
    numbers = {}
    for i, (label, found) in enumerate(runs.items()):
        top, bottom = axes[i], axes[len(runs) + i]
        for key, (name, colour) in plots.CURVES.items():
            _band(top, found, lambda row, key=key: row.get(key), name.format(k=found[0][1]["samples"]), colour)
        for layer in found[0][0][-1].get("log_alpha", {}):
            _band(bottom, found, lambda row, layer=layer: row["log_alpha"][layer]["mean"], layer)
        top.set(title=f"{label} (n = {len(found)})", ylim=(0, 101))
        bottom.set_xlabel("epoch")
        bottom.xaxis.get_major_locator().set_params(integer=True)
        numbers[label] = transition(found[0][0])
        for axis in (top, bottom):
            axis.grid(alpha=0.25)
    axes[0].set_ylabel("test accuracy, %")
    axes[len(runs)].set_ylabel("log alpha")
    for axis in (axes[0], axes[len(runs)]):
        if axis.lines:
            axis.legend(frameon=False, fontsize=8)
    return Drawn(chart, numbers)


def _band(
    axis: "Axes", found: Curves, value: Callable[[dict], float | None], label: str, colour: str | None = None
) -> None:
    """Draw the mean of the runs with as many points as there are, at the same epochs; the label says so where these
    are not all."""
    series = [{row["epoch"]: v for row in history if (v := value(row)) is not None} for history, _ in found]
    epochs = list(max(series, key=len))
    if not epochs:
        return
    values = np.array([list(s.values()) for s in series if list(s) == epochs], float)
    label += f" (n = {len(values)})" if len(values) < len(found) else ""
    (line,) = axis.plot(epochs, values.mean(0), label=label, color=colour, lw=1.6)
    if len(values) > 1:
        spread = values.std(0, ddof=1)
        axis.fill_between(epochs, values.mean(0) - spread, values.mean(0) + spread, color=line.get_color(), alpha=0.2)


def transition(history: list[dict]) -> dict:
    """The epochs at which the zero-mean network starts to work and the deterministic one stops."""
    rows = [row for row in history if row.get("acc_zero_mean_k") is not None]
    best = max((row["acc_k"] for row in rows), default=0)
    works = next((row for row in rows if row["acc_zero_mean_k"] > best / 2), None)
    stops = None
    for row in reversed(rows):
        if row["acc_det"] > best / 2:
            break
        stops = row
    return {
        "zero-mean accuracy above half of the best from epoch": works and works["epoch"],
        "deterministic accuracy below half of the best from epoch": stops and stops["epoch"],
    }
