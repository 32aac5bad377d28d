"""A curve in one dimension, to be drawn with its uncertainties: noise that grows from left to right, and a gap."""

import torch
from torch import Tensor

from varnet.data.dataset import Tensors
from varnet.data.spec import Generated, register

POINTS = 200  # in training and in test
GAP = (-1.0, 1.0)  # without points: there only the weights can be unsure
ENDS = (-4.0, 4.0)


def curve(x: Tensor) -> Tensor:
    return (1.5 * x).sin() + x / 4


def noise(x: Tensor) -> Tensor:
    """Standard deviation of the target: 0.05 at the left end, 0.45 at the right one."""
    return 0.25 + 0.05 * x


def toy_regression(seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for split in ("train", "test"):
        u = 2 * torch.rand(POINTS, 1, generator=generator) - 1
        x = u.sign() * GAP[1] + u * (ENDS[1] - GAP[1])
        y = curve(x) + noise(x) * torch.randn(x.shape, generator=generator)
        tensors |= {f"{split}_x": x, f"{split}_y": y}
    return tensors


register(Generated(name="toy_regression", classes=0, make=toy_regression, source="generated with seed {seed}"))
