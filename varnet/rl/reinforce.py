"""REINFORCE (Williams 1992; Sutton et al. 2000) for a policy whose weights are w = mu + sigma eps, eps held.

The score of a policy is E_eps E_actions R. Its gradient by mu and sigma, without discount, is the mean over episodes of

    sum_t (G_t - b_t) d/d(mu, sigma) log p(a_t | s_t, mu + sigma eps)

with the return G_t from step t on and any baseline b_t that does not depend on the episode itself: the noise is
reparameterized, the actions are not.
"""

import numpy as np
import torch
from torch import Tensor, nn

from varnet.base.checks import whole
from varnet.rl.episode import Episode


def returns(rewards: np.ndarray, gamma: float) -> np.ndarray:
    """G_t = r_t + gamma G_(t+1)."""
    out = np.empty(len(rewards))
    following = 0.0
    for t in range(len(rewards) - 1, -1, -1):
        out[t] = following = rewards[t] + gamma * following
    return out


class Baseline:
    """b_t: the average return from step t on over earlier episodes, those that were over by then counting as 0.

    Exponential, with the plain average at first. A function of t and of earlier episodes only, so that the gradient
    stays unbiased; dividing by an episode's own deviation, as is often done, does not leave it so. With decay 1 and
    no episodes seen it is 0.
    """

    def __init__(self, max_steps: int, decay: float | None):
        self.mean, self.episodes, self.decay = np.zeros(max_steps), 0, decay

    def advantages(self, returned: np.ndarray) -> np.ndarray:
        """G_t - b_t; then the episode joins the average."""
        if (more := len(returned) - len(self.mean)) > 0:  # all earlier ones were over by then
            self.mean = np.pad(self.mean, (0, more))
        out = returned - self.mean[: len(returned)]
        if self.decay is not None:
            padded = np.zeros_like(self.mean)
            padded[: len(returned)] = returned
            self.mean = self.mean + max(1 - self.decay, 1 / (self.episodes + 1)) * (padded - self.mean)
        self.episodes += 1
        return out

    def state_dict(self) -> dict:
        return {"mean": torch.from_numpy(self.mean), "episodes": self.episodes}

    def load_state_dict(self, state: dict) -> None:
        mean, episodes = state["mean"].numpy(), whole()("episodes", state["episodes"])
        if mean.ndim != 1 or mean.dtype != self.mean.dtype:
            raise ValueError("its baseline is no row of averages")
        self.mean, self.episodes = mean, episodes


def loss(policy: nn.Module, episode: Episode, advantages: np.ndarray) -> tuple[Tensor, Tensor]:
    """(loss, entropy): the gradient of the loss is the estimate above, negated; the entropy is a mean over the steps.

    One forward pass for the whole episode, with the weights that played it.
    """
    device = next(policy.parameters()).device
    log_p = torch.log_softmax(policy(torch.from_numpy(episode.observations).to(device)), dim=1)  # steps x actions
    chosen = log_p.gather(1, torch.from_numpy(episode.actions).to(device)[:, None]).squeeze(1)
    weights = torch.from_numpy(advantages).to(device, log_p.dtype)
    entropy = -(log_p.detach().exp() * log_p.detach()).sum(1).mean()
    return -(weights * chosen).sum(), entropy
