"""The paper's toy problem (its Appendix): 500 points per class from N(m, I), m the corners of a square."""

import torch

from varnet.data.dataset import Tensors
from varnet.data.spec import Generated, register

MEANS = ((3.0, 3.0), (3.0, 10.0), (10.0, 3.0), (10.0, 10.0))
POINTS = 500  # per class, in training and in test


def toy(seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(len(MEANS)).repeat_interleave(POINTS)
    centres = torch.tensor(MEANS)[y]
    train, test = (centres + torch.randn(centres.shape, generator=generator) for _ in range(2))
    return {"train_x": train, "train_y": y, "test_x": test, "test_y": y.clone()}


register(Generated(name="toy", classes=4, make=toy, source="generated with seed {seed}"))
