"""The mathematics: layers with random weights, what their forward pass does, their KL, the objective."""

from varnet.nn.convert import variational
from varnet.nn.inventory import inventory
from varnet.nn.layers import Conv2d, Linear, Variational, layers_of
from varnet.nn.likelihoods import Gaussian, LearnedVariance, Likelihood, likelihood_of
from varnet.nn.matching import register_layer
from varnet.nn.modes import predicting, resample, set_mode
from varnet.nn.objective import kl, negative_elbo
from varnet.nn.params import Parameterization
from varnet.nn.priors import Prior
from varnet.nn.registry import option
from varnet.nn.theorem1 import collapse, mmd_bound

__all__ = [
    "Conv2d", "Gaussian", "LearnedVariance", "Likelihood", "Linear", "Parameterization", "Prior", "Variational",
    "collapse", "inventory", "kl", "layers_of", "likelihood_of", "mmd_bound", "negative_elbo", "option", "predicting",
    "register_layer", "resample", "set_mode", "variational",
]  # fmt: skip
