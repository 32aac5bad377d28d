"""Layers with random weights, a file for each kind. A new kind is a class `class Mine(Variational, replaces=nn.Theirs)`
in a file of this folder; `variational` then knows it.
"""

from varnet.nn.layers.base import KINDS, Posterior, State, Variational, layers_of
from varnet.nn.layers.conv2d import Conv2d
from varnet.nn.layers.linear import Linear
from varnet.nn.registry import import_all

__all__ = ["KINDS", "Conv2d", "Linear", "Posterior", "State", "Variational", "layers_of"]
import_all(__name__, __path__)
