"""What several figures share: panels, batches of the test set, standard deviations of a layer's outputs."""

from typing import TYPE_CHECKING

import torch

from varnet.data import Dataset, Loader
from varnet.evaluation.predictions import CPU_ROWS
from varnet.nn.modes import predicting
from varnet.runs.opening import Finished

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def panels(
    count: int, width: float = 3.3, height: float = 3.2, columns: int = 4, **options: object
) -> "tuple[Figure, list[Axes]]":  # fmt: skip
    """A figure and so many axes in a grid; width and height are of one."""
    from matplotlib.figure import Figure

    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), dpi=120, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options).flatten().tolist()
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def test_batches(data: Dataset) -> Loader:
    """The test set, in the memory format that is fastest."""
    return data.loader("test", min(CPU_ROWS, len(data.test_y)), channels_last=len(data.in_shape) == 3)


def standard_deviations(run: Finished, layer: str, data: torch.Tensor) -> torch.Tensor:
    """The standard deviations of the outputs of a variational layer, for inputs of the network."""
    found = []
    with torch.no_grad(), predicting(run.model, "deterministic"):
        module = dict(run.model.named_children())[layer]
        hook = module.register_forward_pre_hook(lambda _m, inputs: found.append(inputs[0]))
        for part in data.split(CPU_ROWS):
            run.model(part)
        hook.remove()
    with torch.no_grad(), predicting(run.model, "sample"):
        return torch.cat([module.moments(x)[1] for x in found]).sqrt()
