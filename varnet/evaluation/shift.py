"""Inputs that the network was not trained on: turned images, and images of another dataset."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varnet.evaluation import metrics
from varnet.evaluation.predictions import Batches, Predictions, predict

if TYPE_CHECKING:
    from varnet.data import Dataset


class Turned:
    """Batches of images turned by an angle in degrees, counter-clockwise; the corners are black."""

    def __init__(self, batches: Batches, angle: float, data: "Dataset"):
        self.batches, self.angle = batches, angle
        # Black, as the network sees it.
        pairs = zip(data.mean, data.std, strict=True) if data.mean else [(0.0, 1.0)] * data.in_shape[0]
        self.fill = [-mean / std for mean, std in pairs]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms.functional import rotate

        for x, y in self.batches:
            turned = rotate(x, self.angle, InterpolationMode.BILINEAR, fill=self.fill) if self.angle else x
            yield turned.contiguous(memory_format=_layout(x)), y


def _layout(x: Tensor) -> torch.memory_format:
    last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return torch.channels_last if last else torch.contiguous_format


def by_angle(
    model: nn.Module, batches: Batches, data: "Dataset", angles: Iterable[float], samples: int, seed: int = 0
) -> list[dict[str, float]]:
    """Measure accuracy and entropies of K samples on the test images turned by each angle."""
    if len(data.in_shape) != 3:
        raise ValueError(f"dataset={data.name} holds points, which cannot be turned: use a dataset of images")
    rows = []
    for angle in angles:
        found = predict(model, Turned(batches, angle, data), "sample", samples, seed=seed)
        rows.append(
            {
                "angle": float(angle),
                "accuracy": metrics.accuracy(found.log_probs, found.y),
                "entropy": float(metrics.entropy(found.log_probs).double().mean()),
                "mutual_information": float(metrics.mutual_information(found).double().mean()),
            }
        )
    return rows


def against(inside: Predictions, outside: Predictions) -> dict[str, float]:
    """Measure how well uncertainty tells outliers from the data: AUROC by predictive entropy and mutual information."""
    scores = {"entropy": lambda p: metrics.entropy(p.log_probs), "mutual_information": metrics.mutual_information}
    return {f"auroc_{name}": metrics.auroc(score(inside), score(outside)) for name, score in scores.items()}


def as_inputs_of(data: "Dataset", other: "Dataset") -> Tensor:
    """Reshape the test images of another dataset to what a network for `data` takes, uint8.

    Resized; colours averaged, or a grey image repeated over the channels.
    """
    if len(data.in_shape) != 3 or len(other.in_shape) != 3:
        name = data.name if len(data.in_shape) != 3 else other.name
        raise ValueError(f"dataset={name} holds points, not images: choose another dataset")
    channels, *size = data.in_shape
    x = other.test_x.float()
    if x.shape[1] != channels:
        x = x.mean(1, keepdim=True).expand(-1, channels, -1, -1)
    if list(x.shape[2:]) != size:
        x = F.interpolate(x, size=size, mode="bilinear", antialias=True)
    return x.round().clamp(0, 255).to(torch.uint8)
