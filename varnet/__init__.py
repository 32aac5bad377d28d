"""varnet: variance networks and variational dropout.

>>> import torch, varnet
>>> model = varnet.variational(torch.nn.Linear(4, 2), param="layer", prior="loguniform")
>>> with varnet.predicting(model, "deterministic"):
...     same_as_before = model(torch.zeros(1, 4))
"""

from varnet.nn.convert import variational
from varnet.nn.modes import predicting, resample, set_mode
from varnet.nn.objective import kl, negative_elbo
from varnet.nn.theorem1 import collapse

__version__ = "0.1.0"
__all__ = ["collapse", "kl", "negative_elbo", "predicting", "resample", "set_mode", "variational"]
