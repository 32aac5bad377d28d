"""Data of linear models: features of any scale, the first of them relevant."""

import numpy as np
from scipy.special import expit


def data(objects=200, features=30, relevant=5, seed=0, labels=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((objects, features)) * rng.uniform(0.1, 10, features) + rng.normal(size=features)
    w = np.zeros(features)
    w[:relevant] = rng.choice([-1, 1], relevant) / X[:, :relevant].std(0)
    mean = (X - X.mean(0)) @ w
    t = rng.random(objects) < expit(3 * mean) if labels else mean + 3 + 0.3 * rng.standard_normal(objects)
    return X, t
