"""Which layer is at fault when the loss is not finite."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from varnet.nn.layers import Variational


@torch.no_grad()
def culprit(model: nn.Module, batch: Tensor, autocast: Callable[[], AbstractContextManager]) -> str:
    """The first layer that is at fault: the weights are those of the bad step, which was not applied."""
    for name, p in model.named_parameters():
        if not torch.isfinite(p).all():
            return f"where {name} became non-finite (its gradient did)"
    faults = _non_finite_outputs(model, batch, autocast)
    faults += [n for n, m in model.named_modules() if isinstance(m, Variational) and not m.kl().isfinite()]
    return f"in layer {faults[0]}" if faults else "though each layer's output is finite now"


def _non_finite_outputs(model: nn.Module, batch: Tensor, autocast: Callable[[], AbstractContextManager]) -> list[str]:
    """Names of the layers whose output for the batch is not finite."""
    faults: list[str] = []

    def look(name: str, out: object) -> None:
        if isinstance(out, Tensor) and not torch.isfinite(out).all():
            faults.append(name)

    hooks = [
        module.register_forward_hook(lambda _m, _i, out, name=name: look(name, out))
        for name, module in model.named_modules()
        if not module._modules
    ]
    with autocast():
        model(batch)
    for hook in hooks:
        hook.remove()
    return faults
