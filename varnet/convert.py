"""Turn any nn.Module into a variational one, and converged variational layers into variance layers (Theorem 1)."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import nn

from varnet import param as params
from varnet import prior as priors
from varnet.layers import Conv2d, Linear, Variational, layers_of, split_options
from varnet.names import select

KINDS = {nn.Linear: Linear, nn.Conv2d: Conv2d}


def variational(
    module: nn.Module,
    layers: str | Iterable[str] = "all",
    param: str = "layer",
    prior: str = "loguniform",
    **options,
) -> nn.Module:
    """Give the Linear and Conv2d layers of a module random weights, whose means are the weights they have.

    Works in place and returns the module (a new layer if the module is itself a Linear or Conv2d). `layers` is "all",
    a name as in named_modules(), a prefix, a pattern, or a list of these. The options are those of
    varnet.param.Parameterization (log_alpha, log_sigma, clip, learn, noise) and varnet.prior.Prior (estimator, nu,
    scale, learn_scale). The means and biases remain the same nn.Parameter objects; the other learned tensors are new,
    so make the optimizer afterwards.
    """
    param, prior = _checked(param, prior, options)
    found = {name: m for name, m in module.named_modules(remove_duplicate=False) if _kind(m) is not None}
    if not found:
        raise ValueError(f"{type(module).__name__} has no nn.Linear or nn.Conv2d layer to make variational")
    chosen = {found[name]: name for name in select(layers, list(found))}
    for layer, name in chosen.items():
        _refuse_altered(name, layer)
    made = {layer: _kind(layer).from_deterministic(layer, param, prior) for layer in chosen}
    if module in made:
        return made[module]
    for parent in list(module.modules()):
        for name, child in list(parent._modules.items()):  # named_children() gives a shared layer only once
            if child in made:
                setattr(parent, name, made[child])
    return module


def _checked(param: object, prior: object, options: dict) -> tuple[params.Parameterization, priors.Prior]:
    param_options, prior_options = split_options(options)
    param, prior = params.make(param, **param_options), priors.make(prior, **prior_options)
    prior.check(param)
    return param, prior


def _kind(module: nn.Module) -> type[Variational] | None:
    """The variational layer for a plain one; a subclass with a forward of its own is another kind of layer."""
    if isinstance(module, nn.LazyLinear | nn.LazyConv2d):
        return None  # it has no weights yet
    return next(
        (ours for theirs, ours in KINDS.items() if getattr(type(module), "forward", None) is theirs.forward), None
    )


def _refuse_altered(name: str, layer: nn.Module) -> None:
    """What a new layer could not carry over, and would change without a word."""
    if "weight" not in layer._parameters:
        raise ValueError(
            f"layer {name!r} computes its weight (weight norm, pruning, a parametrization): remove that first"
        )
    if layer._forward_hooks or layer._forward_pre_hooks:
        raise ValueError(
            f"layer {name!r} has forward hooks, which would be lost: remove them first, or choose `layers`"
        )


class Convergence(NamedTuple):
    """How close a layer is to its zero-mean version."""

    name: str
    log_alpha: float  # mean over the layer
    log_alpha_min: float
    mmd_bound: float
    collapsed: bool


class Report(list[Convergence]):
    """Prints as a table."""

    def __str__(self) -> str:
        lines = [f"{'layer':<24}{'log alpha':>12}{'min':>10}{'MMD bound':>12}  zero-mean"]
        for row in self:
            numbers = f"{row.log_alpha:>12.2f}{row.log_alpha_min:>10.2f}{row.mmd_bound:>12.3g}"
            lines.append(f"{row.name:<24}{numbers}  {'yes' if row.collapsed else 'no'}")
        return "\n".join(lines)


def mmd_bound(layer: Variational) -> float:
    """Bound on the maximum mean discrepancy between q and its zero-mean version.

    Theorem 1 has one alpha: sqrt(2 D / pi) / sqrt(alpha). Its proof shifts each weight by 1/sqrt(alpha_i) standard
    deviations, so with different alphas D / alpha becomes the sum of 1/alpha_i.
    """
    log_alpha = layer.param.log_alpha_of(layer).detach().double()
    total = (-log_alpha).exp().sum() * (layer.weight_shape.numel() / log_alpha.numel())
    return math.sqrt(2 / math.pi * float(total))


def collapse(module: nn.Module, threshold: float = 5.0) -> Report:
    """Turn the layers with every log alpha at or above the threshold into zero-mean layers, in place.

    mu -> 0 and sigma^2 = alpha mu^2 is kept. Reports alpha and the MMD bound of every variational layer, converted or
    not. A converted layer learns `sigma`: make the optimizer anew.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or math.isnan(threshold):
        raise ValueError(f"threshold={threshold!r} is not a number; it is compared with log alpha, e.g. threshold=5")
    report = Report()
    for name, layer in layers_of(module).items():
        log_alpha = layer.param.log_alpha_of(layer).detach()
        lowest = float(log_alpha.min())
        row = Convergence(name, float(log_alpha.mean()), lowest, mmd_bound(layer), lowest >= threshold)
        if row.collapsed and not layer.param.zero_mean:
            with torch.no_grad():
                layer.drop_mean()
        report.append(row)
    return report
