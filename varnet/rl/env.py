"""CartPole and Acrobot, from gymnasium: an optional dependency, so that it is imported when a task is made."""

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from varnet.errors import ConfigError, one_line

if TYPE_CHECKING:
    from gymnasium import Env

INSTALL = "pip install 'varnet[rl]'"


def make(name: str, id: str, max_steps: int, render: bool = False) -> "Env":
    """The task `name`, gymnasium's `id` cut off after max_steps; any task of numbers in and discrete actions out fits.

    CartPole-v0 of the paper is today's CartPole-v1 with 200 steps instead of 500: the same cart, pole and rewards.
    """
    if ":" in id:
        raise ConfigError(
            "is invalid: use the name of a task alone, as a module before a colon is imported", "env.id", id
        )
    gymnasium = _gymnasium(name)
    mode = "rgb_array" if render else None
    try:
        env = gymnasium.make(id, max_episode_steps=max_steps, disable_env_checker=True, render_mode=mode)
    except Exception as error:  # a task may raise anything
        reason = one_line(error)
        raise ConfigError(f"cannot be made ({reason}): use env=cartpole or env=acrobot", "env.id", id) from error
    spaces = gymnasium.spaces
    flat = isinstance(env.observation_space, spaces.Box) and len(env.observation_space.shape) == 1
    if not flat or not isinstance(env.action_space, spaces.Discrete) or env.action_space.start != 0:
        raise ConfigError(
            "is invalid: the policy takes a list of numbers and chooses one of some actions, as in env=cartpole and "
            "env=acrobot", "env.id", id,
        )  # fmt: skip
    return env


def _gymnasium(name: str) -> ModuleType:
    try:
        import gymnasium
    except ImportError as error:
        raise ConfigError(f"needs the package gymnasium, which is not installed: {INSTALL}", "env", name) from error
    return gymnasium


def sizes(env: "Env") -> tuple[int, int]:
    """Numbers in an observation, number of actions."""
    return int(np.prod(env.observation_space.shape)), int(env.action_space.n)
