"""Recurrent cells: one step, for which local reparameterization is exact, as for two dense layers.

Noise is new at every call, so a loop over a sequence has other weights at every step; the state `weights` holds them.
"""

import torch
from torch import Tensor, nn

from varnet.nn.layers.host import Host


class Cell(Host):
    """What cells share: the products with the input and with the hidden state."""

    sampling = "local"

    @classmethod
    def weights_of(cls, module: nn.Module) -> list[str]:
        return ["weight_ih", "weight_hh"]

    def samples_locally(self) -> bool:
        return all(part.samples_locally for part in (self.part("weight_ih"), self.part("weight_hh")))

    def products(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """What the gates are made of, (N, gates * hidden) each, with noise for every object."""
        both = ((self.part("weight_ih"), self.bias_ih, x), (self.part("weight_hh"), self.bias_hh, h))
        first, second = (part(given) if bias is None else part(given) + bias for part, bias, given in both)
        return first, second

    def zeros(self, x: Tensor) -> Tensor:
        return x.new_zeros(*x.shape[:-1], self.hidden_size)


class RNNCell(Cell, nn.RNNCell, replaces=nn.RNNCell):
    """nn.RNNCell with random weights."""

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if not self.samples_locally():
            return super().forward(input, hx)
        first, second = self.products(input, self.zeros(input) if hx is None else hx)
        return torch.relu(first + second) if self.nonlinearity == "relu" else torch.tanh(first + second)


class GRUCell(Cell, nn.GRUCell, replaces=nn.GRUCell):
    """nn.GRUCell with random weights."""

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if not self.samples_locally():
            return super().forward(input, hx)
        h = self.zeros(input) if hx is None else hx
        first, second = (product.chunk(3, -1) for product in self.products(input, h))
        reset, update = torch.sigmoid(first[0] + second[0]), torch.sigmoid(first[1] + second[1])
        new = torch.tanh(first[2] + reset * second[2])
        return new + update * (h - new)


class LSTMCell(Cell, nn.LSTMCell, replaces=nn.LSTMCell):
    """nn.LSTMCell with random weights."""

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if not self.samples_locally():
            return super().forward(input, hx)
        h, c = (self.zeros(input), self.zeros(input)) if hx is None else hx
        first, second = self.products(input, h)
        into, forget, cell, out = (first + second).chunk(4, -1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(into) * torch.tanh(cell)
        return torch.sigmoid(out) * torch.tanh(c), c
