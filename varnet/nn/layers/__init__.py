"""Layers with random weights, a file for each kind. A new kind is a class `class Mine(Variational, replaces=nn.Theirs)`
in a file of this folder; `variational` then knows it.
"""

from varnet.nn.layers.attention import MultiheadAttention
from varnet.nn.layers.base import KINDS, Variational, layers_of
from varnet.nn.layers.bilinear import Bilinear
from varnet.nn.layers.cells import GRUCell, LSTMCell, RNNCell
from varnet.nn.layers.conv import Conv1d, Conv2d, Conv3d
from varnet.nn.layers.conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from varnet.nn.layers.embedding import Embedding
from varnet.nn.layers.linear import Linear
from varnet.nn.layers.parts import Parted
from varnet.nn.layers.recurrent import GRU, LSTM, RNN
from varnet.nn.layers.state import Held, Posterior, State, held_in
from varnet.nn.layers.tensor import RandomTensor
from varnet.nn.layers.transposed import LinearTransposed
from varnet.nn.registry import import_all

__all__ = [
    "GRU", "KINDS", "LSTM", "RNN", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "Embedding", "GRUCell", "Held", "LSTMCell", "Linear", "LinearTransposed", "MultiheadAttention",
    "Parted", "Posterior", "RNNCell", "RandomTensor", "State", "Variational", "held_in", "layers_of",
]  # fmt: skip
import_all(__name__, __path__)
