"""Figure 5: a variance layer keeps its accuracy without most of its sigmas."""

from varnet.base import plots
from varnet.base.text import in_picture
from varnet.evaluation.pruning import pruning_curve
from varnet.paper.drawing import test_batches
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, figure, one_seed
from varnet.runs.opening import Finished

EXPERIMENT = "table1_zero_mean"
FRACTIONS = (
    0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 0.999,
)  # fmt: skip


@figure(
    "fig5", "Figure 5: accuracy against the fraction of sigmas removed, LeNet-5 on MNIST", EXPERIMENT, seeds=one_seed
)  # fmt: skip
def draw(library: Library) -> Drawn:
    return pruning(library.first(EXPERIMENT))


def pruning(run: Finished, samples: int = 20) -> Drawn:
    """Draw the accuracy against the fraction of sigmas of the variance layer that are removed."""
    rows = pruning_curve(run.model, test_batches(run.data), FRACTIONS, samples, by="sigma")
    fractions = [100 * row["fraction"] for row in rows]
    title = in_picture(f"{run.cfg.name}, seed {run.cfg.seed}: smallest sigmas of dense1 removed")
    lines = {f"{samples} samples": [row["acc_k"] for row in rows]}
    chart = plots.curves(fractions, lines, "sigmas removed, %", "test accuracy, %", title)
    return Drawn(chart, {f"{f:g} %": row["acc_k"] for f, row in zip(fractions, rows, strict=True)})
