import pytest
import torch
from matplotlib.figure import Figure

from varnet.base.plots import rendered
from varnet.train.trainer import Trainer

torch.set_num_threads(1)  # small tensors gain nothing from more, and waiting threads suffer on a busy machine
PICTURE = rendered(Figure(figsize=(0.1, 0.1)))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def unpictured(monkeypatch):
    """The picture of a run takes longer than its few steps in a test."""
    monkeypatch.setattr(Trainer, "figure", lambda self: PICTURE)
