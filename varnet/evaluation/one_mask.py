"""Binary dropout with one mask for every object: a draw of the weights of a network whose only noise it is."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

MASKING = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)  # what multiplies by 0 or 1 / (1 - p)


class OneMask(nn.Module):
    """Dropout that draws its mask for one object and gives it to all rows of a batch."""

    def __init__(self, dropout: nn.Module):
        super().__init__()
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        return x * self.dropout(torch.ones_like(x[:1]))


@contextlib.contextmanager
def one_mask(model: nn.Module) -> Iterator[None]:
    """Put OneMask in place of the dropout inside of a model, and back."""
    places = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent._modules.items()
        if type(child) in MASKING
    ]
    for parent, name, child in places:
        parent._modules[name] = OneMask(child)
    try:
        yield
    finally:
        for parent, name, child in places:
            parent._modules[name] = child
