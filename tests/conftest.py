import pytest
import torch

torch.set_num_threads(1)  # small tensors gain nothing from more, and waiting threads suffer on a busy machine


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
