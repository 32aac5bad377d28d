"""Remove the units and filters that a chain of layers can do without: nothing comes in, or nothing goes out.

A unit whose incoming weights are all 0 has a constant output, which moves into the next layer's bias. One whose
outgoing weights are all 0 is not needed. Either may make a neighbour removable: repeat until nothing changes.
"""

import itertools

import torch
from torch import Tensor, nn

ELEMENTWISE = (
    nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Identity,
)  # fmt: skip
POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)  # of a constant image: the constant
Stages = dict[str, nn.Module]


def reduce(stages: Stages) -> None:
    """Shrink the Linear and Conv2d layers of a chain in place."""
    modules = list(stages.values())
    places = [i for i, module in enumerate(modules) if isinstance(module, nn.Linear | nn.Conv2d)]
    pairs = [(modules[a], modules[a + 1 : b], modules[b]) for a, b in itertools.pairwise(places)]
    pairs, changed = [pair for pair in pairs if removable(*pair)], True
    while changed:
        changed = sum(_shrink(*pair) for pair in pairs) > 0  # each pair in every round


def removable(layer: nn.Module, between: list[nn.Module], following: nn.Module) -> bool:
    """Whether every unit of the layer keeps to itself on its way to the next one."""
    if any(isinstance(m, nn.Conv2d) and m.groups != 1 for m in (layer, following)):
        return False
    flat = [m for m in between if isinstance(m, nn.Flatten)]
    if any((m.start_dim, m.end_dim) != (1, -1) for m in flat):
        return False
    if any(isinstance(m, nn.AvgPool2d) and (m.padding not in (0, (0, 0)) or m.divisor_override) for m in between):
        return False  # zeros would be averaged in, or the average of a constant would not be the constant
    if isinstance(layer, nn.Linear):
        mapped = isinstance(following, nn.Linear) and following.in_features == layer.out_features
        mapped = mapped and not any(isinstance(m, POOLS) for m in between)  # they would pool over units
    else:
        mapped = isinstance(following, nn.Conv2d) or bool(flat)
    return mapped and all(isinstance(m, (*ELEMENTWISE, *POOLS, nn.Flatten)) for m in between)


def _shrink(layer: nn.Module, between: list[nn.Module], following: nn.Module) -> bool:
    """Remove what can go between two layers; whether anything did."""
    outgoing = _by_unit(following.weight, len(layer.weight))
    dead = (layer.weight.flatten(1) == 0).all(1)
    constant = _constant(layer, between) * dead
    if _pads_with_zeros(following):
        dead &= constant == 0
    unused = (outgoing == 0).all(2).all(0)
    chosen = dead | unused
    if not chosen.any() or (len(chosen) == 1 and not layer.weight.any() and not outgoing.any()):
        return False
    constant = constant * dead
    if constant.any():
        added = outgoing.double().sum(2) @ constant.double()
        bias = added if following.bias is None else following.bias.double() + added
        following.bias = _frozen(bias.to(outgoing.dtype))
    if chosen.all():  # a layer has at least one unit: one that does nothing
        chosen[0] = False
        outgoing = outgoing.clone()
        outgoing[:, 0] = 0
        layer.weight = _frozen(torch.zeros_like(layer.weight))
    _keep(layer, following, outgoing, ~chosen)
    return True


def _constant(layer: nn.Module, between: list[nn.Module]) -> Tensor:
    """What the rest of the network sees of units without input."""
    value = layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias.clone()
    for module in between:  # one may work in place
        if isinstance(module, ELEMENTWISE):
            value = module(value)
    return value


def _by_unit(weight: Tensor, units: int) -> Tensor:
    """(out, units, weights of a unit): a channel has a kernel, or a block of the inputs of a dense layer."""
    return weight.reshape(len(weight), units, -1)


def _pads_with_zeros(layer: nn.Module) -> bool:
    """At the border a constant would no longer be one."""
    if not isinstance(layer, nn.Conv2d) or layer.padding_mode != "zeros":
        return False
    return layer.padding not in ("valid", (0, 0))


def _keep(layer: nn.Module, following: nn.Module, outgoing: Tensor, kept: Tensor) -> None:
    layer.weight = _frozen(layer.weight[kept])
    if layer.bias is not None:
        layer.bias = _frozen(layer.bias[kept])
    weight = outgoing[:, kept]
    if isinstance(following, nn.Conv2d):
        following.weight = _frozen(weight.reshape(len(weight), -1, *following.weight.shape[2:]))
        following.in_channels = following.weight.shape[1]
    else:
        following.weight = _frozen(weight.flatten(1))
        following.in_features = following.weight.shape[1]
    if isinstance(layer, nn.Conv2d):
        layer.out_channels = len(layer.weight)
    else:
        layer.out_features = len(layer.weight)


def _frozen(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor.detach().contiguous(), requires_grad=False)
