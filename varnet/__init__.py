"""varnet: variance networks and variational dropout.

>>> import torch, varnet
>>> model = varnet.variational(torch.nn.Linear(4, 2), param="layer", prior="loguniform")
>>> with varnet.predicting(model, "deterministic"):
...     same_as_before = model(torch.zeros(1, 4))

The names below are loaded when they are first used; docs/library.md shows each of them.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what editors and type checkers see
    from varnet.attack.gradient import Attack
    from varnet.compress.compacting import compact
    from varnet.evaluation.ensemble import Ensemble
    from varnet.evaluation.mixtures import mixture
    from varnet.evaluation.predictions import predict
    from varnet.evaluation.pruning import prune
    from varnet.nn.advice import advice
    from varnet.nn.convert import variational
    from varnet.nn.groups import parameter_groups
    from varnet.nn.inventory import inventory
    from varnet.nn.layers import (
        GRU,
        LSTM,
        RNN,
        Bilinear,
        Conv1d,
        Conv2d,
        Conv3d,
        ConvTranspose1d,
        ConvTranspose2d,
        ConvTranspose3d,
        Embedding,
        GRUCell,
        Linear,
        LinearTransposed,
        LSTMCell,
        MultiheadAttention,
        RNNCell,
    )
    from varnet.nn.likelihoods import Gaussian, LearnedVariance
    from varnet.nn.matching import register_layer
    from varnet.nn.modes import predicting, resample, set_mode
    from varnet.nn.objective import kl, negative_elbo
    from varnet.nn.theorem1 import collapse
    from varnet.runs.opening import open_run
    from varnet.runs.shelf import load

__version__ = "0.1.0"
__all__ = [
    "GRU", "LSTM", "RNN", "Attack", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "Embedding", "Ensemble", "GRUCell", "Gaussian", "LSTMCell", "LearnedVariance", "Linear",
    "LinearTransposed", "MultiheadAttention", "RNNCell", "advice", "collapse", "compact", "inventory", "kl", "load",
    "mixture", "negative_elbo", "open_run", "parameter_groups", "predict", "predicting", "prune", "register_layer",
    "resample", "set_mode", "variational",
]  # fmt: skip
HOMES = {  # module -> the public names that it has
    "attack.gradient": ("Attack",),
    "compress.compacting": ("compact",),
    "evaluation.ensemble": ("Ensemble",),
    "evaluation.mixtures": ("mixture",),
    "evaluation.predictions": ("predict",),
    "evaluation.pruning": ("prune",),
    "nn.advice": ("advice",),
    "nn.convert": ("variational",),
    "nn.groups": ("parameter_groups",),
    "nn.inventory": ("inventory",),
    "nn.layers": (
        "GRU", "LSTM", "RNN", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
        "ConvTranspose3d", "Embedding", "GRUCell", "LSTMCell", "Linear", "LinearTransposed", "MultiheadAttention",
        "RNNCell",
    ),
    "nn.likelihoods": ("Gaussian", "LearnedVariance"),
    "nn.matching": ("register_layer",),
    "nn.modes": ("predicting", "resample", "set_mode"),
    "nn.objective": ("kl", "negative_elbo"),
    "nn.theorem1": ("collapse",),
    "runs.opening": ("open_run",),
    "runs.shelf": ("load",),
}  # fmt: skip


if not TYPE_CHECKING:  # which would take every attribute for one that is there

    def __getattr__(name: str) -> object:
        home = next((module for module, names in HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module 'varnet' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"varnet.{home}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
