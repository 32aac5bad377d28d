"""Variational dropout for linear models, as scikit-learn estimators (Molchanov and Ashukha's slides, 2016).

q(w_d) = N(mu_d, alpha_d mu_d^2), one alpha per feature. A feature whose alpha grows is noise and is dropped: automatic
relevance determination. `VD` has the log-uniform prior; `GKL` (Gaussian KL) the best Gaussian prior of each weight.
"""

from varnet.linear.classification import GKLClassifier, VDClassifier
from varnet.linear.estimator import SelectionWarning
from varnet.linear.regression import GKLRegressor, VDRegressor

__all__ = ["GKLClassifier", "GKLRegressor", "SelectionWarning", "VDClassifier", "VDRegressor"]
