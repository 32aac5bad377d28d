"""What the forward pass of a layer does, as a state that is set on it; the noise that a state holds.

sample          local reparameterization, fresh noise for every object; the state of a new layer
weights         one draw of the weights, held over batches until `resample()`
deterministic   the mean of the weights (mean propagation)
zero_mean       as sample, the means set to 0 and the variances kept (Theorem 1)
permuted        as sample, the variances of the layer shuffled among its weights
"""

from typing import NamedTuple

from torch import Tensor, nn


class State(NamedTuple):
    """What the forward pass of a layer does: where its noise is drawn, and what has become of its moments."""

    sampling: str = "local"  # local | weights | none
    zero_mean: bool = False
    permuted: bool = False


class Posterior(NamedTuple):
    """Moments of the weights; log_alpha broadcasts to their shape."""

    mean: Tensor
    variance: Tensor
    log_alpha: Tensor


class Held(nn.Module):
    """A module with a state, which may hold noise: a layer with random weights, or dropout."""

    state: State
    held_noise: Tensor | None  # of the state `weights`
    permutation: Tensor | None  # of the state `permuted`

    def begin_state(self) -> None:
        """Begin in the state `sample`; what is held is no part of a state_dict."""
        self.state = State()
        self.register_buffer("held_noise", None, persistent=False)
        self.register_buffer("permutation", None, persistent=False)

    def set_state(self, state: State) -> None:
        self.state = state
        self.held_noise = self.permutation = None
        if state.sampling == "weights":
            self.resample()

    @property
    def holds(self) -> bool:
        """Whether `resample` has something to draw anew."""
        return self.state.sampling == "weights"

    def resample(self) -> None:
        """A new draw for the state `weights`. The noise is held, not the product: gradients flow through it."""
        if self.state.sampling != "weights":
            raise ValueError('resample() needs the state "weights": use it inside `with predicting(model, "weights")`')
        self.held_noise = self.new_noise()

    def new_noise(self) -> Tensor:
        """What is held."""
        raise NotImplementedError


def held_in(model: nn.Module) -> dict[str, Held]:
    """The modules with a state by name; a shared one once."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Held)}
