"""Figures of a run and of groups of runs.

Matplotlib is used without pyplot, so that nothing global changes and no display is needed.
"""

import io
from typing import TYPE_CHECKING

import numpy as np

from varnet.base.text import in_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES = {  # metric -> (label, colour), in the paper's order (Figure 3)
    "acc_det": ("deterministic", "#c44e52"),
    "acc_1": ("one sample", "#8c8c8c"),
    "acc_k": ("{k} samples", "#4c72b0"),
    "acc_zero_mean_k": ("zero-mean, {k} samples", "#55a868"),
}


YLABELS = {"acc": "test accuracy, %", "rmse": "test RMSE", "nll": "test NLL"}


def phase_transition(
    history: list[dict], samples: int, title: str, classes: int | None = None, what: str = "acc"
) -> "Figure":
    """Test accuracy (or what else is measured) of the four predictions and log alpha of each layer, by epoch (Figures 3
    and 8)."""
    from matplotlib.figure import Figure

    rows = [row for row in history if row.get(f"{what}_det") is not None]
    alphas = {name for row in rows for name in row.get("log_alpha", {})}
    figure = Figure(figsize=(7.2, 6.0 if alphas else 3.6), dpi=120, layout="constrained")
    axes = figure.subplots(2 if alphas else 1, 1, sharex=True, squeeze=False)[:, 0]
    epochs = [row["epoch"] for row in rows]
    for key, (label, colour) in CURVES.items():
        values = [row.get(key.replace("acc", what)) for row in rows]
        if any(v is not None for v in values):
            axes[0].plot(epochs, values, label=label.format(k=samples), color=colour, lw=1.8)
    if classes:
        axes[0].axhline(100 / classes, color="black", lw=0.8, ls=":", label="chance")
    axes[0].set(ylabel=YLABELS[what], title=in_picture(title), **({"ylim": (0, 101)} if what == "acc" else {}))
    if alphas:
        _draw_log_alpha(axes[1], rows, sorted(alphas))
    for axis in axes:
        axis.grid(alpha=0.25)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes[-1].set_xlabel("epoch")
    axes[-1].xaxis.get_major_locator().set_params(integer=True)
    return figure


def _draw_log_alpha(axis, rows: list[dict], names: list[str]) -> None:
    for name in names:
        found = [(row["epoch"], row["log_alpha"][name]) for row in rows if name in row["log_alpha"]]
        epochs = [epoch for epoch, _ in found]
        (line,) = axis.plot(epochs, [a["mean"] for _, a in found], lw=1.8, label=in_picture(name))
        low, high = np.array([[a["min"], a["max"]] for _, a in found]).T
        if (high > low).any():
            axis.fill_between(epochs, low, high, color=line.get_color(), alpha=0.15, lw=0)
    axis.set(ylabel="log alpha")


def reliability(modes: dict[str, list[dict]], title: str) -> "Figure":
    """Accuracy against confidence, bin by bin; the diagonal is perfect calibration."""
    figure, axis = _one_axis((5.0, 4.6))
    axis.plot([0, 100], [0, 100], color="black", lw=0.8, ls=":", label="calibrated")
    for label, rows in modes.items():
        x, y = [100 * r["confidence"] for r in rows], [r["accuracy"] for r in rows]
        total = sum(r["count"] for r in rows)
        axis.plot(x, y, "-", lw=1.2, label=label)
        axis.scatter(x, y, [8 + 150 * r["count"] / total for r in rows])  # area by the number of objects
    axis.set(xlabel="confidence, %", ylabel="accuracy, %", xlim=(0, 101), ylim=(0, 101), title=title)
    axis.legend(frameon=False)
    return figure


def histograms(values: dict[str, np.ndarray], xlabel: str, title: str, bins: int = 30) -> "Figure":
    """Several sets of numbers on one axis, each as a density."""
    figure, axis = _one_axis((6.4, 3.8))
    everything = np.concatenate([np.asarray(v, float) for v in values.values()])
    low, high = everything.min(), everything.max()
    edges = np.linspace(low, high if high > low else low + 1e-3, bins + 1)
    for label, numbers in values.items():
        axis.hist(numbers, edges, density=True, alpha=0.6, label=label)
    axis.set(xlabel=xlabel, ylabel="density", title=title)
    axis.legend(frameon=False)
    return figure


def curves(x: list[float], lines: dict[str, list[float]], xlabel: str, ylabel: str, title: str) -> "Figure":
    figure, axis = _one_axis((6.4, 3.8))
    for label, values in lines.items():
        axis.plot(x, values, "o-", ms=4, lw=1.6, label=label)
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axis.legend(frameon=False)
    return figure


def bands(
    x: np.ndarray, mean: np.ndarray, epistemic: np.ndarray, aleatoric: np.ndarray,
    points: tuple[np.ndarray, np.ndarray], title: str,
) -> "Figure":  # fmt: skip
    """A curve with bands of two standard deviations above, and below it the two parts of the variance apart."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 6.0), dpi=120, layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    inner, outer = 2 * np.sqrt(epistemic), 2 * np.sqrt(epistemic + aleatoric)
    top.fill_between(x, mean - outer, mean + outer, color="#4c72b0", alpha=0.2, lw=0, label="weights and noise, 2 std")
    top.fill_between(x, mean - inner, mean + inner, color="#4c72b0", alpha=0.45, lw=0, label="weights alone, 2 std")
    top.plot(x, mean, color="#1f3a68", lw=1.8, label="mean")
    top.plot(*points, ".", color="black", ms=3, label="training data")
    top.set(ylabel="target", title=title)
    bottom.plot(x, np.sqrt(epistemic), color="#c44e52", lw=1.8, label="epistemic (weights)")
    bottom.plot(x, np.sqrt(aleatoric), color="#55a868", lw=1.8, label="aleatoric (noise)")
    bottom.set(xlabel="input", ylabel="std", ylim=(0, None))
    for axis in (top, bottom):
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, fontsize="small")
    return figure


def by_angle(rows: list[dict], title: str) -> "Figure":
    """Accuracy and entropies of turned images."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.6), dpi=120, layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    angles = [row["angle"] for row in rows]
    top.plot(angles, [row["accuracy"] for row in rows], "o-", ms=4, color="#4c72b0")
    top.set(ylabel="accuracy, %", ylim=(0, 101), title=title)
    for key, label in (("entropy", "predictive entropy"), ("mutual_information", "mutual information")):
        bottom.plot(angles, [row[key] for row in rows], "o-", ms=4, label=label)
    bottom.set(xlabel="angle, degrees", ylabel="nats")
    bottom.legend(frameon=False)
    for axis in (top, bottom):
        axis.grid(alpha=0.25)
    return figure


def _one_axis(size: tuple[float, float]) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=120, layout="constrained")
    axis = figure.subplots()
    axis.grid(alpha=0.25)
    return figure, axis


UNITS = {"acc": ", %", "rmse": ", RMSE", "nll": ", NLL"}
MODES = {"det": "deterministic", "k": "K samples", "zero_mean_k": "zero-mean, K samples"}
DRAWN = (*(f"{what}_{mode}" for what in UNITS for mode in MODES), "elbo")  # by epoch, where there are values


IN_LEGEND = 24  # groups; a longer legend leaves no room for the curves, and more bands hide each other


def by_epoch(groups: list) -> "Figure":
    """Accuracies and ELBO by epoch: the mean over the seeds of each group (varnet.report.Group) and, of a few groups, a
    band of one standard deviation. Errors where no group has accuracies."""
    from matplotlib.figure import Figure

    what = next((one for one in UNITS if any(group.curve(f"{one}_det")[0] for group in groups)), "acc")
    panels = {f"{what}_{mode}": f"{label}{UNITS[what]}" for mode, label in MODES.items()} | {"elbo": "ELBO"}
    figure = Figure(figsize=(10, 7), dpi=120, layout="constrained")
    axes = figure.subplots(2, 2, sharex=True).flat
    for axis, (metric, title) in zip(axes, panels.items(), strict=True):
        for number, group in enumerate(groups):
            epochs, values = group.curve(metric)
            if epochs:
                name = in_picture(group.title or group.runs[0].folder.parent.name)
                _draw_mean(axis, epochs, np.array(values), f"C{number % 10}", name, len(groups) <= IN_LEGEND)
        axis.set(title=title)
        axis.grid(alpha=0.25)
    handles, labels = figure.axes[1].get_legend_handles_labels()
    if (more := len(handles) - IN_LEGEND) > 0:
        figure.supxlabel(f"{more} more curves have no name here: table.csv lists all groups", fontsize="small")
    if handles:
        figure.legend(
            handles[:IN_LEGEND], labels[:IN_LEGEND], loc="outside lower center", ncols=min(3, len(handles)),
            frameon=False,
        )  # fmt: skip
    for axis in figure.axes[2:]:
        axis.set_xlabel("epoch")
    return figure


def _draw_mean(axis, epochs: list[int], values: np.ndarray, colour: str, label: str, band: bool) -> None:
    """values: (runs, epochs)"""
    mean = values.mean(0)
    axis.plot(epochs, mean, color=colour, lw=1.6, label=f"{label} (n={len(values)})")
    if band and len(values) > 1:
        std = values.std(0, ddof=1)
        axis.fill_between(epochs, mean - std, mean + std, color=colour, alpha=0.2, lw=0)


def rendered(figure: "Figure", kind: str = "png") -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind)
    return buffer.getvalue()
