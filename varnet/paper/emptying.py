"""A weight matrix that empties over the epochs of sparse variational dropout: a picture and an animation (lectures)."""

import io
from typing import TYPE_CHECKING

import numpy as np
import torch

from varnet.errors import ConfigError
from varnet.evaluation.sparsity import kept
from varnet.nn.layers import Variational
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, figure, one_seed
from varnet.runs.members import snapshots
from varnet.runs.opening import Finished
from varnet.train import checkpoint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 4
EXPERIMENT = "sparse_lenet300"


@figure(
    "emptying", "Sparse variational dropout: the first layer of LeNet-300-100 empties", EXPERIMENT, seeds=one_seed
)  # fmt: skip
def draw(library: Library) -> Drawn:
    return emptying(library.first(EXPERIMENT))


def emptying(run: Finished, layer: str = "dense1") -> Drawn:
    """Draw a run with snapshots; the numbers are the sparsity by epoch."""
    frames = _frames(run, layer)
    if not frames:
        raise ConfigError(f"{run.folder} has no snapshots: train it with snapshots=[1,2,5,10,20] or the like")
    top = max(1e-12, *(float(np.quantile(values, 0.995)) for values, _ in frames.values()))
    images = {epoch: np.clip(values / top, 0, 1) for epoch, (values, _) in frames.items()}
    sparsities = {epoch: share for epoch, (_, share) in frames.items()}
    numbers = {"sparsity by epoch, %": sparsities}
    return Drawn(_picture(images, sparsities, layer), numbers, gif=_gif(images, sparsities))


def _frames(run: Finished, layer: str) -> dict[int, tuple[np.ndarray, float]]:
    """Epoch -> |weights| left, rows of the matrix are outputs, and the percentage that is removed."""
    found = {}
    for path in snapshots(run.folder):
        state = checkpoint.read(path)
        run.model.load_state_dict(state["model"])
        q = dict(run.model.named_modules()).get(layer)
        if not isinstance(q, Variational):
            raise ConfigError(f"of {run.folder} has no random weights: choose another", "layer", layer)
        mask = kept(q)
        with torch.no_grad():
            values = (q.param.mean(q).abs() * mask).flatten(1).numpy()
        found[state["epoch"]] = values, 100 * (1 - float(mask.double().mean()))
    return found


def _picture(images: dict[int, np.ndarray], sparsities: dict[int, float], layer: str) -> "Figure":
    from matplotlib.figure import Figure

    chosen = [list(images)[i] for i in np.linspace(0, len(images) - 1, min(PANELS, len(images))).round().astype(int)]
    figure = Figure(figsize=(7.2, 2.1 * len(chosen)), dpi=120, layout="constrained")
    for axis, epoch in zip(figure.subplots(len(chosen), 1, squeeze=False)[:, 0], chosen, strict=True):
        axis.imshow(images[epoch], cmap="gray_r", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axis.set(title=f"epoch {epoch}: {sparsities[epoch]:.1f} % of {layer} removed", xlabel="input", ylabel="output")
    return figure


def _gif(images: dict[int, np.ndarray], sparsities: dict[int, float]) -> bytes:
    from PIL import Image, ImageDraw

    frames = []
    for epoch, values in images.items():
        matrix = Image.fromarray((255 * (1 - values)).astype(np.uint8))
        frame = Image.new("L", (max(matrix.width, 240), matrix.height + 16), 255)
        frame.paste(matrix, (0, 16))
        ImageDraw.Draw(frame).text((4, 2), f"epoch {epoch}: {sparsities[epoch]:.1f} % removed", fill=0)
        frames.append(frame.quantize(16))
    buffer = io.BytesIO()
    frames[0].save(buffer, "gif", save_all=True, append_images=frames[1:], duration=350, loop=0, optimize=True)
    return buffer.getvalue()
