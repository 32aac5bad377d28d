"""What the forward pass of a variational model does: one state for each layer, set on a whole model by its name here.

    sample          local reparameterization, fresh noise for every object; the state of a new layer
    weights         one draw of the weights, held over batches until `resample()`
    deterministic   the mean of the weights (mean propagation)
    zero_mean       as sample, the means set to 0 and the variances kept (Theorem 1)
    permuted        as sample, the variances of the layer shuffled among its weights

train() and eval() do not change it.
"""

import contextlib
from collections.abc import Iterable, Iterator

from torch import nn

from varnet.base.checks import one_of
from varnet.nn.layers import Held, State, Variational, held_in
from varnet.nn.names import select
from varnet.nn.tying import share_draws

MODES = {
    "sample": State(),
    "weights": State(sampling="weights"),
    "deterministic": State(sampling="none"),
    "zero_mean": State(zero_mean=True),
    "permuted": State(permuted=True),
}


# Drop values in training mode only; an encoder layer has a fast path in evaluation mode that leaves them out.
DROPPING = (nn.modules.dropout._DropoutNd, nn.MultiheadAttention, nn.RNNBase, nn.TransformerEncoderLayer)


def resample(model: nn.Module) -> None:
    """New weights for the layers whose state is `weights`; it is an error if a variational model has none."""
    found = held_in(model).values()
    for layer in [layer for layer in found if layer.holds] or found:
        layer.resample()
    _share(found)


def _share(found: Iterable[Held]) -> None:
    """One draw for tied weights."""
    share_draws(layer for layer in found if isinstance(layer, Variational))


@contextlib.contextmanager
def predicting(
    model: nn.Module, mode: str, layers: str | Iterable[str] = "all", sampling: str = "local"
) -> Iterator[nn.Module]:
    """Put a model into one state of prediction, and back.

    Batch norm and the like are in evaluation mode inside; nn.Dropout, and that of attention and of recurrent layers, is
    on in the stochastic modes and off in the deterministic one. `layers` limits zero_mean, permuted, deterministic and
    weights to some layers, while the others sample; sampling="weights" holds one draw of the weights in the modes
    zero_mean and permuted too.
    """
    state = _state(mode, sampling)
    found = {name.removeprefix("_orig_mod."): layer for name, layer in held_in(model).items()}  # of torch.compile
    chosen = set(select(layers, list(found)))
    before = {layer: (layer.state, layer.held_noise, layer.permutation) for layer in found.values()}
    training = {module: module.training for module in model.modules()}
    try:
        model.eval()
        for module in model.modules():
            if isinstance(module, DROPPING):
                module.training = state.sampling != "none"
        for name, layer in found.items():
            layer.set_state(state if name in chosen else State(sampling))
        _share(found.values())
        yield model
    finally:
        for layer, (state, noise, permutation) in before.items():
            layer.state, layer.held_noise, layer.permutation = state, noise, permutation
        for module, flag in training.items():
            module.training = flag


def drops(module: nn.Module) -> bool:
    """Whether a module itself, not one inside of it, drops values in the stochastic modes."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    if isinstance(module, nn.RNNBase):
        return module.dropout > 0 and module.num_layers > 1
    return isinstance(module, nn.MultiheadAttention) and module.dropout > 0


def set_mode(model: nn.Module, mode: str, sampling: str = "local") -> nn.Module:
    """As `predicting`, for good, and without touching train() or eval(): e.g. to train with held weights."""
    state = _state(mode, sampling)
    found = held_in(model).values()
    for layer in found:
        layer.set_state(state)
    _share(found)
    return model


def _state(mode: str, sampling: str) -> State:
    one_of(*MODES)("mode", mode)
    one_of("local", "weights")("sampling", sampling)
    state = MODES[mode]
    return state._replace(sampling=sampling) if state.sampling == "local" else state
