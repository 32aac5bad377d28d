"""One episode: the policy acts with the weights it holds."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Episode(NamedTuple):
    observations: np.ndarray  # steps x inputs, float32
    actions: np.ndarray  # steps
    rewards: np.ndarray  # steps

    @property
    def score(self) -> float:
        """The sum of the rewards, not discounted."""
        return float(self.rewards.sum())


def play(
    env, logits: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator, greedy: bool = False, watch=None
) -> Episode:
    """From the start to the end. Actions are drawn from the softmax of the logits, or are its largest if greedy.

    All that is random, the start of the episode included, comes from `rng`. `watch(env)` is called at every step.
    """
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    observations, actions, rewards = [], [], []
    done = False
    while not done:
        observation = np.asarray(observation, dtype=np.float32)
        action = choose(logits(observation), rng, greedy)
        observations.append(observation)
        actions.append(action)
        observation, reward, terminated, truncated, _ = env.step(action)
        rewards.append(reward)
        done = terminated or truncated
        if watch is not None:
            watch(env)
    return Episode(np.stack(observations), np.array(actions), np.array(rewards, dtype=np.float64))


def choose(logits: np.ndarray, rng: np.random.Generator, greedy: bool) -> int:
    if greedy:
        return int(logits.argmax())
    steps = np.exp(logits - logits.max()).cumsum()  # probabilities up to a factor, summed up
    if not steps[-1] >= 1:  # false for NaN
        raise FloatingPointError("the policy's logits are not finite")
    return int(np.searchsorted(steps, rng.random() * steps[-1], side="right"))
