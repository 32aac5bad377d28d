"""The policy: three dense layers with 256 hidden units; what the second one is tells the three policies apart.

    deterministic     w = mu
    parameter_noise   w = mu + sigma eps (Fortunato et al. 2017, Plappert et al. 2017)
    variance          w = sigma eps: a variance layer (section 3)

One eps is held over an episode. There is no prior and no KL: the policy gradient alone moves mu and sigma.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from varnet import set_mode, variational
from varnet.nn.layers import Linear


def build(
    inputs: int,
    actions: int,
    hidden: int = 256,
    layers: str | list[str] = "dense2",
    param: str = "zero_mean",
    **options,
) -> nn.Sequential:
    """Observations (batch x inputs) -> logits (batch x actions), the weights held from one resample() to the next."""
    policy = nn.Sequential()
    for index, (fan_in, fan_out) in enumerate(((inputs, hidden), (hidden, hidden), (hidden, actions)), start=1):
        policy.add_module(f"dense{index}", nn.Linear(fan_in, fan_out))
        if index < 3:
            policy.add_module(f"relu{index}", nn.ReLU())
    variational(policy, layers=layers, param=param, prior="none", **options)
    set_mode(policy, "weights")
    return policy


@torch.no_grad()
def acting(policy: nn.Sequential) -> Callable[[np.ndarray], np.ndarray]:
    """One observation -> logits, with the weights as they are held now.

    The same function as the policy's forward, in numpy: for single observations the calls of torch cost more than the
    products. The random weights are drawn and multiplied once per episode, not once per step.
    """
    dense = [layer for layer in policy if isinstance(layer, nn.Linear | Linear)]
    *hidden, (last_weight, last_bias) = [(_numpy(layer.weight), _numpy(layer.bias)) for layer in dense]

    def logits(observation: np.ndarray) -> np.ndarray:
        x = observation
        for weight, bias in hidden:
            x = np.maximum(weight @ x + bias, 0)
        return last_weight @ x + last_bias

    return logits


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()  # the optimizer changes parameters in place
