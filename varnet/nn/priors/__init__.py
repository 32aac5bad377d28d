"""Priors p(w), a file each. A new one is a class with a `name` in a file of this folder, and a YAML in configs/prior/.

>>> sorted(PRIORS)[:2]
['ard', 'gaussian']
"""

from varnet.nn.priors.ard import ARD
from varnet.nn.priors.base import PRIORS, C, Prior
from varnet.nn.priors.gaussian import Gaussian
from varnet.nn.priors.loguniform import LogUniform
from varnet.nn.priors.none import NoPrior
from varnet.nn.priors.student import Student
from varnet.nn.registry import import_all, option

__all__ = ["ARD", "PRIORS", "C", "Gaussian", "LogUniform", "NoPrior", "Prior", "Student", "option"]
import_all(__name__, __path__)
