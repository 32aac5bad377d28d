"""Figure 1: activations of two variance neurons on the toy problem."""

import math

import numpy as np
import torch

from varnet.paper.drawing import panels, standard_deviations
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, figure
from varnet.runs.opening import Finished

SEEDS = 8  # at full scale, at least: the kinds of representation differ by seed
NOISE_SEED = 2019  # not that of the points, which are normal too


def seeds(asked: int, scale: str) -> int:
    return asked if scale == "small" else max(asked, SEEDS)


@figure("fig1", "Figure 1: activations of two variance neurons on the toy problem, by seed", "toy", seeds=seeds)
def draw(library: Library) -> Drawn:
    return toy_activations(library.opened("toy", seeds(library.seeds, library.scale)))


def toy_activations(runs: list[Finished]) -> Drawn:
    """Draw samples of the two variance neurons, coloured by class; one panel for each seed."""
    chart, axes = panels(len(runs))
    numbers = {}
    for axis, run in zip(axes, runs, strict=True):
        std = standard_deviations(run, "dense5", run.data.train_x)
        noise = torch.randn(std.shape, generator=torch.Generator().manual_seed(NOISE_SEED))
        labels, by_neuron = run.data.train_y, _levels(std, run.data.train_y)
        kind = representation(by_neuron)
        for one, levels in zip("xy", by_neuron, strict=True):  # classes differ by orders of magnitude
            largest = 10.0 ** np.floor(np.log10(max(1e-3, *levels)))
            getattr(axis, f"set_{one}scale")("symlog", linthresh=max(1e-3, min(levels)))
            getattr(axis, f"set_{one}ticks")([-largest, 0, largest])
        for c in range(run.data.classes):
            axis.scatter(*(std * noise)[labels == c].numpy().T, s=3, alpha=0.5, label=f"class {c + 1}")
        axis.set(title=f"seed {run.cfg.seed}: {kind}", xlabel="neuron 1", ylabel="neuron 2")
        numbers[f"seed {run.cfg.seed}"] = {
            "kind": kind, "standard deviation by neuron and class": by_neuron, "acc_1": run.metrics["acc_1"],
            "acc_k": run.metrics["acc_k"],
        }  # fmt: skip
    axes[0].legend(frameon=False, fontsize=7, markerscale=2)
    return Drawn(chart, numbers)


def _levels(std: torch.Tensor, labels: torch.Tensor) -> list[list[float]]:
    """Median standard deviation of each neuron, by class."""
    return [[float(of_one[labels == c].median()) for c in labels.unique()] for of_one in std.T]


def representation(levels: list[list[float]]) -> str:
    """repeat: both neurons order the classes by variance alike; orthogonal: some two classes the other way round, by a
    factor of two in the standard deviation at least."""
    first, second = (torch.tensor(of_one).clamp_min(1e-12).log() for of_one in levels)
    above, above_too = (one[:, None] - one > math.log(2) for one in (first, second))  # class by class
    return "orthogonal" if bool((above & above_too.T).any()) else "repeat"
