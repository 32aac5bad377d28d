"""One episode: the policy acts with the weights it holds."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gymnasium import Env


class Episode(NamedTuple):
    """What the policy saw, did and was rewarded with."""

    observations: np.ndarray  # steps x inputs, float32
    actions: np.ndarray  # steps
    rewards: np.ndarray  # steps

    @property
    def score(self) -> float:
        """The sum of the rewards, not discounted."""
        return float(self.rewards.sum())


def play(
    env: "Env", logits: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator, greedy: bool = False,
    watch: Callable[["Env"], None] | None = None,
) -> Episode:  # fmt: skip
    """Play from the start to the end. Actions are drawn from the softmax of the logits, or are its largest if greedy.

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
    """An action. In plain Python, which for two or three numbers is five times as fast as numpy."""
    values = logits.tolist()
    if not all(map(math.isfinite, values)):
        raise FloatingPointError("the policy's logits are not finite")
    highest = max(values)
    if greedy:
        return values.index(highest)
    chances = [math.exp(value - highest) for value in values]  # probabilities, up to a factor
    rest = rng.random() * sum(chances)
    for action, chance in enumerate(chances):
        rest -= chance
        if rest < 0:
            return action
    return values.index(highest)  # rounding left a rest of 0
