"""Parameterizations of q(w), a file each. A new one is a class with a `name` in a file of this folder, which says what
is learned (`tensors`) and what the standard deviation is (`std`), and a YAML in configs/param/.

>>> sorted(PARAMS)[:2]
['additive', 'deterministic']
"""

from varnet.nn.params.additive import Additive
from varnet.nn.params.base import PARAMS, Parameterization, as_parameter
from varnet.nn.params.deterministic import Deterministic
from varnet.nn.params.gaussian_dropout import GaussianDropout
from varnet.nn.params.multiplicative import LayerWise, Multiplicative, NeuronWise, WeightWise
from varnet.nn.params.zero_mean import ZeroMean
from varnet.nn.registry import import_all, option

__all__ = [
    "PARAMS", "Additive", "Deterministic", "GaussianDropout", "LayerWise", "Multiplicative", "NeuronWise",
    "Parameterization", "WeightWise", "ZeroMean", "as_parameter", "option",
]  # fmt: skip
import_all(__name__, __path__)
