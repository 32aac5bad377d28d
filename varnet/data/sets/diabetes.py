"""scikit-learn's diabetes: 442 patients, ten measurements, how far the disease has gone a year later (25 to 346)."""

import torch

from varnet.data.dataset import Tensors
from varnet.data.spec import Generated, register
from varnet.data.subset import chosen, others

TEST = 100
SPLIT_SEED = 0


def diabetes(seed: int) -> Tensors:
    """Always the same split, whatever the seed."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    x, y = torch.from_numpy(data.data).float(), torch.from_numpy(data.target).float()[:, None]
    test = chosen(y, TEST, SPLIT_SEED)
    train = others(len(y), test)
    return {"train_x": x[train], "train_y": y[train], "test_x": x[test], "test_y": y[test]}


register(Generated(name="diabetes", classes=0, make=diabetes, source="scikit-learn", scaled=True))
