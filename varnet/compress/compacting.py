"""A trained network -> a compact one: weights with log alpha >= threshold are 0, and what they leave idle is removed.

Sparse variational dropout (Molchanov et al., 2017) removes weights whose noise drowns them, log alpha >= 3. Zeros in a
dense matrix make it neither smaller nor faster; here the network is rebuilt from what remains:

    means of the weights, thresholded  ->  batch norm folded in, dropout dropped
        ->  idle units and filters removed (varnet.reduce)
        ->  stored without zeros (varnet.packed), computed by CSR where that is faster (varnet.csr)

Predictions are those of the thresholded network in the state `deterministic`.
"""

import copy

import torch
from torch import Tensor, nn

from varnet.base.checks import FINITE
from varnet.compress.csr import Sparse, conv_options, plain_conv, plain_linear
from varnet.compress.packed import DESCRIBED, Compact, Report, Row, assembled, load, pack, packed, save, torch_bytes
from varnet.compress.units import Stages, reduce
from varnet.evaluation.sparsity import kept
from varnet.nn.layers import Conv2d, Linear, Variational
from varnet.nn.layers.dropout import HeldDropout
from varnet.nn.modes import predicting

__all__ = ["Compact", "compact", "deterministic", "load", "save"]
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
DROPOUTS = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout,
)  # fmt: skip


def compact(model: nn.Sequential, threshold: float | None = 3.0, sparse: bool = True) -> Compact:
    """The compact network, on the CPU. The model is left alone.

    threshold   a weight with log alpha at or above it becomes 0; those that the model itself takes as 0 (its
                param.threshold) are 0 in any case; None: only those
    sparse      compute with CSR where that is faster; False: dense layers only
    """
    original = deterministic(model, threshold)
    stages = _folded(original)
    with torch.no_grad():
        reduce(stages)
    stages = {name: module.float() for name, module in stages.items()}
    net = assembled(stages, sparse)
    rows = tuple(_row(name, layer, net.get_submodule(name)) for name, layer in _weighted(original).items())
    size = len(torch_bytes(original.state_dict()))
    net.report = Report(rows, size, len(packed(net, rows, size)))
    return net


def deterministic(model: nn.Sequential, threshold: float | None = 3.0) -> nn.Sequential:
    """The model as plain nn.Linear and nn.Conv2d with the thresholded means, on the CPU, in evaluation mode."""
    if threshold is not None:
        FINITE("threshold", threshold)
    if not _in_a_row(model):
        raise ValueError(f"a {type(model).__name__} cannot be made compact: give an nn.Sequential of layers in a row")
    net = nn.Sequential()
    with torch.no_grad(), predicting(model, "deterministic"):
        for name, module in _chain(model):
            if name in net._modules:
                raise ValueError(f"two layers would be called {name!r}: rename one of them")
            net.add_module(name, _plain(name, module, threshold))
    if not _weighted(net):
        raise ValueError("the model has no Linear or Conv2d layer to make compact")
    return net.eval().requires_grad_(False)


def _chain(model: nn.Sequential, prefix: str = "") -> list[tuple[str, nn.Module]]:
    """Layers in order, those of nested nn.Sequential too."""
    _refuse_hooks(prefix.rstrip("_") or "the model", model)
    found: list[tuple[str, nn.Module]] = []
    for name, module in model._modules.items():  # named_children() gives a layer that is used twice only once
        if isinstance(module, nn.Sequential) and _in_a_row(module):
            found += _chain(module, f"{prefix}{name}_")
        else:
            found.append((prefix + name, module))
    return found


def _in_a_row(module: nn.Module) -> bool:
    return _is(module, nn.Sequential, Compact)


def _is(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    """One of the kinds. A subclass with a forward of its own is not: it may do anything, such as add its input."""
    forward = vars(module).get("forward", type(module).forward)
    return isinstance(module, kinds) and forward in [kind.forward for kind in kinds]


def _refuse_hooks(name: str, module: nn.Module) -> None:
    if module._forward_hooks or module._forward_pre_hooks:
        raise ValueError(f"layer {name!r} has forward hooks, which would be lost: remove them first")


def _plain(name: str, module: nn.Module, threshold: float | None) -> nn.Module:
    _refuse_hooks(name, module)
    if isinstance(module, Linear | nn.Linear) and _is(module, Linear, nn.Linear):
        return plain_linear(_weight(name, module, threshold), _cpu(module.bias))
    if isinstance(module, Conv2d | nn.Conv2d) and _is(module, Conv2d, nn.Conv2d):
        options = conv_options(module) if isinstance(module, nn.Conv2d) else module.geometry._asdict()
        options = {**options, "padding_mode": module.padding_mode}
        return plain_conv(_weight(name, module, threshold), _cpu(module.bias), options)
    if isinstance(module, NORMS) and module.running_mean is None:
        raise ValueError(f"layer {name!r} keeps no running averages: a compact network needs track_running_stats=True")
    if type(module) not in (*DESCRIBED, *NORMS, *DROPOUTS) and not isinstance(module, HeldDropout):
        raise ValueError(f"layer {name!r} is a {type(module).__name__}, which cannot be made compact")
    return copy.deepcopy(module).cpu()


def _cpu(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().cpu()


def _weight(name: str, layer: Variational | nn.Linear | nn.Conv2d, threshold: float | None) -> Tensor:
    """The means of the weights, 0 where the noise is too large."""
    weight = layer.weight.detach()  # 0 from the layer's own threshold on
    if isinstance(layer, Variational) and threshold is not None and not layer.param.deterministic:
        weight = weight.masked_fill(~kept(layer, threshold), 0.0)
    if not weight.any():
        own = layer.param.threshold if isinstance(layer, Variational) else None
        limit = binding(threshold, own)
        remedy = "raise threshold, or train" if own is None or limit != own else "train"
        raise ValueError(
            f"layer {name!r} has no weight left (mean other than 0, log alpha below threshold={limit}), so the compact "
            f"network would ignore its input: {remedy} with param=additive or weight, and a smaller schedule.beta if "
            "it emptied itself"
        )
    return weight.cpu()


def binding(threshold: float | None, own: float | None) -> float | None:
    """Which of the threshold asked for and a layer's own takes effect."""
    return min((limit for limit in (threshold, own) if limit is not None), default=None)


def _folded(net: nn.Sequential) -> Stages:
    """Without dropout and with batch norm inside the layer before it; in float64, so that this costs no digits."""
    stages: Stages = {}
    last: nn.Module | None = None
    for name, module in net.named_children():
        if isinstance(module, NORMS):
            if not isinstance(last, nn.Linear | nn.Conv2d):
                raise ValueError(f"layer {name!r} is batch norm that does not directly follow a Linear or Conv2d layer")
            _fold(last, module)
        elif not isinstance(module, DROPOUTS):
            stages[name] = last = copy.deepcopy(module).double()
    return stages


def _fold(layer: nn.Linear | nn.Conv2d, norm: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
    """norm(W x + b) = (s W) x + s (b - mean) + shift"""
    assert norm.running_mean is not None and norm.running_var is not None  # _plain has refused others
    mean, variance = norm.running_mean.double(), norm.running_var.double()
    scale = (variance + norm.eps).rsqrt() * (1.0 if norm.weight is None else norm.weight.double())
    shift = 0.0 if norm.bias is None else norm.bias.double()
    bias = -mean if layer.bias is None else layer.bias - mean
    layer.weight = nn.Parameter(layer.weight * scale.view(-1, *[1] * (layer.weight.dim() - 1)), requires_grad=False)
    layer.bias = nn.Parameter(bias * scale + shift, requires_grad=False)


def _weighted(net: nn.Sequential) -> dict[str, nn.Linear | nn.Conv2d]:
    return {name: m for name, m in net.named_children() if isinstance(m, nn.Linear | nn.Conv2d)}


def _row(name: str, before: nn.Linear | nn.Conv2d, after: nn.Module) -> Row:
    about, data = pack(after)
    kind = "CSR" if isinstance(after, Sparse) else "dense"
    nonzero = int(before.weight.count_nonzero())
    kept = after.nonzero if isinstance(after, Sparse) else int(after.get_parameter("weight").count_nonzero())
    return Row(name, before.weight.numel(), nonzero, about["shape"], kept, kind, len(data))
