"""Figure 4: one draw of the weights for the whole test set is a network of its own; many are averaged."""

import numpy as np

from varnet.base import plots
from varnet.evaluation import metrics
from varnet.evaluation import predictions as evaluation
from varnet.paper.drawing import test_batches
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, figure, one_seed
from varnet.runs.opening import Finished

EXPERIMENT = "table2_mnist_variance"


@figure(
    "fig4", "Figure 4: accuracy of weight samples and of averages, LeNet-5 on MNIST, all layers variational",
    EXPERIMENT, seeds=one_seed,
)  # fmt: skip
def draw(library: Library) -> Drawn:
    return weight_samples(library.first(EXPERIMENT))


def weight_samples(run: Finished, averages: int = 10, samples: int = 200) -> Drawn:
    """Draw the accuracy of single draws of the weights, and of averages of many of them."""
    batches = test_batches(run.data)
    found = [evaluation.weight_samples(run.model, batches, samples, seed) for seed in range(averages)]
    single = np.concatenate([f.accuracy.numpy() for f in found])
    many = np.array([metrics.accuracy(f.average.log_probs, f.average.y) for f in found])
    values = {f"{len(single)} draws of the weights": single, f"{averages} averages of {samples} draws": many}
    chart = plots.histograms(values, "test accuracy, %", f"{run.cfg.name}, seed {run.cfg.seed}", bins=60)
    summary = {k: {"mean": float(v.mean()), "std": float(v.std(ddof=1)), "n": len(v)} for k, v in values.items()}
    return Drawn(chart, summary)
