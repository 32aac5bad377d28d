"""Figure 9: densities of the activations of a variance layer, by class."""

import numpy as np
import torch

from varnet.paper.drawing import panels, standard_deviations, test_batches
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, figure, one_seed
from varnet.runs.opening import Finished

EXPERIMENT = "table1_zero_mean"


@figure(
    "fig9", "Figure 9: densities of activations of a variance layer by class, LeNet-5 on MNIST", EXPERIMENT,
    seeds=one_seed,
)  # fmt: skip
def draw(library: Library) -> Drawn:
    return class_densities(library.first(EXPERIMENT))


def class_densities(run: Finished, layer: str = "dense1", neurons: int = 4, seed: int = 0) -> Drawn:
    """Draw the density of a neuron's activation averaged over the objects of a class, +- its standard deviation."""
    x = torch.cat([x for x, _ in test_batches(run.data)])
    std, y = standard_deviations(run, layer, x).double(), run.data.test_y
    chosen = torch.randperm(std.shape[1], generator=torch.Generator().manual_seed(seed))[:neurons].tolist()
    chart, axes = panels(neurons)
    colours = _colours(run.data.classes)
    for axis, j in zip(axes, chosen, strict=True):
        reach = 3 * float(std[:, j].quantile(0.9))
        grid = torch.linspace(-reach, reach, 201, dtype=torch.double)
        for c in range(run.data.classes):
            own = std[y == c, j].clamp_min(1e-3 * reach)[:, None]
            density = (-0.5 * (grid / own).square()).exp() / (own * np.sqrt(2 * np.pi))
            mean, spread = density.mean(0), density.std(0)
            axis.plot(grid, mean, color=colours[c], lw=1.2, label=str(c))
            axis.fill_between(grid, (mean - spread).clamp_min(1e-9), mean + spread, color=colours[c], alpha=0.12, lw=0)
        top = max(float(line.get_ydata().max()) for line in axis.lines)
        axis.set(title=f"neuron {j}", xlabel="activation", yscale="log", ylim=(top / 3000, 2 * top))
    axes[0].legend(frameon=False, fontsize=7, ncols=2, title="class", title_fontsize=7)
    axes[0].set_ylabel("density")
    levels = {f"neuron {j}": [round(float(std[y == c, j].mean()), 4) for c in range(run.data.classes)] for j in chosen}
    return Drawn(chart, {"mean standard deviation by class": levels})


def _colours(count: int) -> list:
    from matplotlib import colormaps

    return [colormaps["tab10"](i % 10) for i in range(count)]
