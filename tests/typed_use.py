"""What a type checker and an editor see of `varnet`: mypy reads this file in `make lint`, nothing runs it."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from typing_extensions import assert_type

import varnet
from varnet.attack.gradient import Path as AttackPath
from varnet.attack.gradient import run
from varnet.compress import Compact
from varnet.evaluation import Mixture, Predictions
from varnet.nn.advice import Advice
from varnet.nn.inventory import Inventory
from varnet.nn.theorem1 import Report
from varnet.runs.opening import Finished
from varnet.runs.shelf import Stored


def layers(model: nn.Module, x: Tensor, y: Tensor) -> None:
    assert_type(varnet.variational(model, ["layer4", "fc"], param="neuron", log_alpha=-5.0), nn.Module)
    assert_type(varnet.kl(model), Tensor)
    assert_type(varnet.negative_elbo(model, x, y, data_size=100, beta=0.5), Tensor)
    learned = varnet.Gaussian(variance="learned")
    assert_type(varnet.negative_elbo(model, x, y, data_size=100, likelihood=learned), Tensor)
    assert_type(varnet.negative_elbo(model, x, y, 100, likelihood=lambda out, target: -((out - target) ** 2)), Tensor)
    assert_type(varnet.LearnedVariance(2)(x), Any)
    assert_type(varnet.predicting(model, "sample", layers="fc").__enter__(), nn.Module)
    assert_type(varnet.set_mode(model, "weights"), nn.Module)
    varnet.resample(model)
    assert_type(varnet.collapse(model, threshold=5.0), Report)
    dense, conv = varnet.Linear(4, 2, bias=False, prior="ard"), varnet.Conv2d(1, 2, (3, 3), stride=2)
    assert_type(dense.kl(), Tensor)
    assert_type(conv.posterior().variance, Tensor)
    assert_type(varnet.Bilinear(2, 3, 4, random_bias=True).moments(x, y)[1], Tensor)
    assert_type(varnet.inventory(model), Inventory)
    assert_type(varnet.advice(model, steps=100, lr=1e-3), Advice)
    assert_type(varnet.parameter_groups(model, lr=1e-3, log_alpha_beta2=0.9), list[dict[str, Any]])
    varnet.register_layer("mine.Dense", varnet.Linear)


def predictions(model: nn.Module, net: nn.Sequential, x: Tensor, y: Tensor) -> None:
    assert_type(varnet.predict(model, [(x, y)], "sample", samples=20), Predictions)
    found = varnet.mixture(model, [(x, y)], "gaussian", samples=20)
    assert_type(found, Mixture)
    assert_type(found.interval(0.9), tuple[Tensor, Tensor])
    assert_type(varnet.prune(model, 0.9, by="snr"), nn.Module)
    assert_type(varnet.Ensemble([model, model]), varnet.Ensemble)
    assert_type(varnet.compact(net, threshold=None), Compact)
    attack = varnet.Attack(method="pgd_linf", epsilon=8.0)
    assert_type(run(model, x, y, attack), AttackPath)


def runs(folder: Path) -> None:
    found = varnet.open_run(folder)
    assert_type(found, Finished)
    assert_type(varnet.open_run(str(folder)).model, nn.Module)
    assert_type(found.metrics, dict)
    assert_type(varnet.load("digits_layer"), Stored)
    assert_type(varnet.load(folder).model, nn.Module)


def context(model: nn.Module) -> AbstractContextManager[nn.Module]:
    return varnet.predicting(model, "zero_mean", sampling="weights")
