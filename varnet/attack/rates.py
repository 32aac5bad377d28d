"""Rates of successful attacks by iteration: lines with their intervals, networks compared on the same images, and the
picture of them (Figure 7)."""

import itertools
import math
import statistics
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from varnet.attack.gradient import Attack
from varnet.base.text import in_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHITE_BOX = "white box"


def line(network: str, kind: str, successes: list[Tensor], attack: Attack) -> dict:
    """Collect the rates in % of (iterations + 1, N) successes of each model. The band (95 %, Wilson) is that of the
    choice of images; `std` is over the models, `each` has the rates of every one. `outcomes` has every image at some
    iterations: for each model a 1 where the attack succeeds, else a 0."""
    rates = torch.stack([s.double().mean(1) for s in successes])  # (models, iterations + 1)
    images = successes[0].shape[1]
    bands = [wilson(float(rate), images) for rate in rates.mean(0)]
    return {
        "network": network, "attack": kind, "samples": attack.samples, "images": images, "n": len(rates),
        "iteration": list(range(rates.shape[1])), "rate": [100 * r for r in rates.mean(0).tolist()],
        "low": [100 * low for low, _ in bands], "high": [100 * high for _, high in bands],
        "std": [100 * s for s in rates.std(0).tolist()] if len(rates) > 1 else None,
        "each": (100 * rates).tolist() if len(rates) > 1 else None,
        "outcomes": {str(i): [_marks(s[i]) for s in successes] for i in milestones(rates.shape[1] - 1)},
    }  # fmt: skip


def _marks(success: Tensor) -> str:
    return "".join("1" if one else "0" for one in success.tolist())


def compared(lines: list[dict], kind: str = WHITE_BOX) -> list[dict]:
    """Compare the networks of these lines pair by pair, image by image, under one kind of attack."""
    chosen = [row for row in lines if row["attack"] == kind]
    pairs = itertools.combinations(chosen, 2)
    return [_pair(first, second, i) for first, second in pairs for i in first["outcomes"] if i in second["outcomes"]]


def _pair(first: dict, second: dict, iteration: str) -> dict:
    """McNemar's exact test; of several seeds each image counts once, for the network that it fools in more of them."""
    one, other = (_shares(row["outcomes"][iteration]) for row in (first, second))
    counts = [sum(a > b for a, b in zip(*both, strict=True)) for both in ((one, other), (other, one))]
    return {
        "networks": [first["network"], second["network"]], "attack": first["attack"], "iteration": int(iteration),
        "images": len(one), "fooled_more": counts, "p": mcnemar(*counts),
    }  # fmt: skip


def _shares(outcomes: list[str]) -> list[float]:
    """Part of the models that each image fools."""
    return [marks.count("1") / len(marks) for marks in zip(*outcomes, strict=True)]


def mcnemar(first: int, second: int) -> float:
    """Compute the exact p of so many images that only one of two networks has wrong, and only the other: the chance of
    parts as unequal or more, if either were equally likely."""
    n, less = first + second, min(first, second)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(less + 1)) / 2**n)


def wilson(rate: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's interval of a probability from a rate among n trials: never empty, even at 0 and 1."""
    z = statistics.NormalDist().inv_cdf((1 + level) / 2)
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * (rate * (1 - rate) / n + z**2 / (4 * n**2)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def figure(lines: list[dict], title: str) -> "Figure":
    """Draw Figure 7; beside it, in the same colours, attacks with more samples and from another network, if any."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    panels = 2 if _more(lines) else 1
    figure = Figure(figsize=(5.2 * panels, 4.2), dpi=120, layout="constrained")
    axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    left, right = axes[0], axes[-1]
    colours = {name: colormaps["tab10"](i % 10) for i, name in enumerate(dict.fromkeys(r["network"] for r in lines))}
    for row in lines:
        axis = left if row["attack"] == WHITE_BOX else right
        colour, style = colours[row["network"]], "--" if row["attack"].startswith("transfer") else "-"
        axis.plot(row["iteration"], row["rate"], label=in_picture(row["network"]), lw=1.6, color=colour, ls=style)
        axis.fill_between(row["iteration"], row["low"], row["high"], color=colour, alpha=0.12, lw=0)
    left.set(title=in_picture(title), ylabel="successful attacks, %", ylim=(-1, 101))
    for axis in axes:
        axis.set_xlabel("iteration")
        axis.grid(alpha=0.25)
    left.legend(frameon=False, fontsize=8)
    if panels > 1:
        right.set(title="is it robust, or is the gradient hidden?")
        kinds = {row["attack"]: line.get_linestyle() for row, line in zip(_more(lines), right.lines, strict=True)}
        keys = [Line2D([], [], color="black", ls=style, label=kind) for kind, style in kinds.items()]
        right.legend(handles=keys, frameon=False, fontsize=8)
    return figure


def _more(lines: list[dict]) -> list[dict]:
    return [row for row in lines if row["attack"] != WHITE_BOX]


def milestones(iterations: int) -> list[int]:
    """Choose the iterations whose rates go into a table."""
    return sorted({round(part * iterations) for part in (0.125, 0.25, 0.5, 1.0)})
