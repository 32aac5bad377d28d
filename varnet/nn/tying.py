"""Tied weights: one posterior, two uses. What shares its weight in a plain network shares all that it learns, its KL is
counted once, and a draw of the weights is the same for all of them."""

import re
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor, nn

from varnet.nn.layers import Variational, layers_of


class New(NamedTuple):
    """A layer that has just become random."""

    name: str
    layer: Variational
    weight: Tensor  # of the plain layer


def tie(module: nn.Module, made: list[New]) -> list[tuple[New, New]]:
    """Let layers whose plain weights were one share a posterior; returns the pairs, and warns where they cannot."""
    first: dict[int, New] = {}
    just_made = {one.layer for one in made}
    for name, layer in layers_of(module).items():  # of an earlier call
        if layer not in just_made and (mean := getattr(layer, "mu", None)) is not None:
            first.setdefault(id(mean), New(name, layer, mean))
    pairs = []
    for one in made:
        other = first.setdefault(id(one.weight), one)
        if other is one:
            continue
        if _fit(one.layer, other.layer):
            one.layer.share(other.layer)
            pairs.append((one, other))
        else:
            warnings.warn(
                f"{one.name!r} and {other.name!r} had one weight and are untied: param={one.layer.param.name} has "
                "noise of another shape for each; use param=layer to keep them tied", stacklevel=3,
            )  # fmt: skip
    return pairs


def warn_of_plain_users(module: nn.Module, made: list[New]) -> None:
    """Tell of weights that a plain layer has as well."""
    weights = {id(one.weight): one for one in made}
    own = {id(tensor) for one in made for tensor in one.layer.parameters()}
    plain = {name: part for name, part in module.named_modules() if not isinstance(part, Variational)}
    for owner, parameter in ((name, p) for name, part in plain.items() for p in part._parameters.values()):
        one = weights.get(id(parameter))
        if one is None:
            continue
        shared = "share their mean, but not its noise" if id(parameter) in own else "are untied"
        warnings.warn(
            f"{one.name!r} has the weight of {owner!r}, which stays plain: they {shared}; choose both in `layers`, or "
            "none", stacklevel=3,
        )  # fmt: skip


def _fit(one: Variational, other: Variational) -> bool:
    learned = [{n: getattr(q, n).shape for n in (*q.of_param, *q.of_prior)} for q in (one, other)]
    by_output = any(len(shape) == 1 for shape in learned[0].values())
    return learned[0] == learned[1] and (not by_output or one.output_axis == other.output_axis)


def same_posterior(one: Variational, other: Variational) -> bool:
    """Whether two layers learn the same tensors."""
    return one.of_param == other.of_param and all(getattr(one, n) is getattr(other, n) for n in one.of_param)


def twins(layers: Iterable[Variational]) -> dict[Variational, Variational]:
    """A layer -> the one before it that has the same posterior."""
    found: dict[Variational, Variational] = {}
    firsts: list[Variational] = []
    for layer in (layer for layer in layers if layer.shared):
        first = next((one for one in firsts if same_posterior(one, layer)), None)
        if first is None:
            firsts.append(layer)
        else:
            found[layer] = first
    return found


def distinct(layers: Iterable[Variational]) -> list[Variational]:
    """Without those whose posterior was there before."""
    layers = list(layers)
    again = twins(layers)
    return [layer for layer in layers if layer not in again]


def share_draws(layers: Iterable[Variational]) -> None:
    """The same noise for the same weights."""
    for layer, first in twins(layers).items():
        layer.held_noise, layer.permutation = first.held_noise, first.permutation


# ---- what a model keeps of its ties, so that it may be saved without copies (Hugging Face)

LISTS = ("_tied_weights_keys", "all_tied_weights_keys")


def rename_ties(module: nn.Module, pairs: list[tuple[New, New]]) -> None:
    """Translate the names of tied weights that a model lists: lm_head.weight -> lm_head.mu, lm_head.log_alpha, ..."""
    for prefix, part in module.named_modules():
        for key in LISTS:
            if names := getattr(part, key, None):
                setattr(part, key, _renamed(names, prefix, pairs))


def _renamed(names: Any, prefix: str, pairs: list[tuple[New, New]]) -> Any:
    start = f"{prefix}." if prefix else ""
    inside = [
        (one.name.removeprefix(start), other.name.removeprefix(start), (*one.layer.of_param, *one.layer.of_prior))
        for one, other in pairs
        if one.name.startswith(start) and other.name.startswith(start)
    ]
    if isinstance(names, dict):
        more = {f"{a}.{leaf}": f"{b}.{leaf}" for a, b, leaves in inside for leaf in leaves if f"{a}.weight" in names}
        more |= {f"{b}.{leaf}": f"{a}.{leaf}" for a, b, leaves in inside for leaf in leaves if f"{b}.weight" in names}
        return names | more
    either = [(name, leaves) for a, b, leaves in inside for name in (a, b)]
    matched = [(name, leaves) for name, leaves in either if any(re.search(n, f"{name}.weight") for n in names)]
    return type(names)([*names, *(f"{name}.{leaf}" for name, leaves in matched for leaf in leaves)])
