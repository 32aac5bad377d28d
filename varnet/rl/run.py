"""A configuration of configs/rl -> a run and its numbers. Its life is that of every run (varnet.runs.life)."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from omegaconf import DictConfig
from torch import nn

from varnet.base.checks import TEXT, THREADS, Check, number, one_of, or_null, whole
from varnet.base.invocation import command
from varnet.errors import ConfigError
from varnet.nn.params import PARAMS, Parameterization
from varnet.rl import env as envs
from varnet.rl import policy as policies
from varnet.rl.trainer import Trainer
from varnet.runs import folder as runs
from varnet.runs import life
from varnet.runs.identity import identity, plain
from varnet.runs.life import Kind
from varnet.runs.meaning import check_param
from varnet.runs.resuming import check_fits
from varnet.runs.schema import CHECKS as COMMON
from varnet.runs.schema import check_values
from varnet.train import checkpoint

if TYPE_CHECKING:
    from gymnasium import Env

KEYS = (
    "name", "seed", "out_dir", "resume", "render", "device", "threads", "jobs", "checkpoint_every",
)  # fmt: skip


def _names_no_module(value: object) -> bool:
    """gymnasium imports what stands before a colon, and a folder alone names no code."""
    return TEXT.fits(value) and ":" not in str(value)


CHECKS = {
    **{key: COMMON[key] for key in ("seed", "name", "out_dir", "threads", "checkpoint_every")},
    "jobs": THREADS,
    "schedule.episodes": whole(1, 10**7),
    "schedule.lr": number(0, above=True),
    "reinforce.gamma": number(0, 1),
    "reinforce.baseline": or_null(number(0, 1, below=True)),
    "eval.actions": one_of("sample", "greedy"),
    "env.max_steps": whole(1, 1_000_000),
    "env.id": Check(_names_no_module, "the name of a task of gymnasium alone, as a module before a colon is imported"),
    "env.name": TEXT,
    "policy.name": TEXT,
    "policy.hidden": whole(1, 10**6),
    "policy.param": one_of(*PARAMS),
}
OPTIONS = tuple(field.name for field in fields(Parameterization))  # of the random layers
GROUPS = {  # group -> its keys
    "env": ("name", "id", "max_steps", "episodes", "lr"),
    "policy": ("name", "param", "hidden", "layers", *OPTIONS),
    "schedule": ("episodes", "lr"),
    "reinforce": ("gamma", "baseline"),
    "eval": ("actions",),
}


def check(cfg: DictConfig) -> None:
    """Values of the right kind and range, before anything is written."""
    check_values(cfg, GROUPS, KEYS, CHECKS, command("rl"))
    policy = plain(cfg.policy)
    given = [key for key in OPTIONS if policy.get(key) is not None]
    if policy["param"] == "deterministic" and given:
        raise ConfigError(
            "has no meaning for policy.param=deterministic, which has no random weights: leave it out",
            f"policy.{given[0]}", policy[given[0]],
        )  # fmt: skip
    if policy["param"] != "deterministic" and policy["layers"] in ("none", []):
        raise ConfigError(
            "leaves no layer random: use policy=deterministic, or a layer", "policy.layers", policy["layers"]
        )


def check_new(cfg: DictConfig) -> None:
    """Of a run that the command line asks for: each value fits, and each one says something."""
    check(cfg)
    options = {key: value for key, value in plain(cfg.policy).items() if key in OPTIONS}
    check_param(PARAMS[cfg.policy.param], options, "policy", f"policy.param={cfg.policy.param}")


def build_policy(cfg: DictConfig, env: "Env") -> nn.Sequential:
    """The policy of a run; errors name the configuration's keys."""
    options = {key: value for key, value in plain(cfg.policy).items() if key != "name" and value is not None}
    try:
        return policies.build(*envs.sizes(env), **options)
    except ConfigError as error:
        raise error.under("policy") from error
    except (RuntimeError, MemoryError) as error:
        raise ConfigError("gives a network that does not fit in memory", "policy.hidden", cfg.policy.hidden) from error


def make_env(cfg: DictConfig, render: bool = False) -> "Env":
    """The task of a configuration."""
    return envs.make(cfg.env.name, cfg.env.id, cfg.env.max_steps, render)


def made(cfg: DictConfig, where: torch.device, folder: Path) -> Trainer:
    """The trainer of a run, which writes nothing before it trains."""
    env = make_env(cfg)
    from threadpoolctl import threadpool_limits  # of scikit-learn; numpy's products must not fight over the cores

    trainer = Trainer(cfg, env, build_policy(cfg, env), where, folder, identity(cfg))
    trainer.limits = threadpool_limits(cfg.threads)
    return trainer


# What the metrics of a finished run have.
NEEDED = frozenset({"score", "window", "env", "policy", "episodes", "seed", "commit"})
REINFORCE = Kind("rl", runs.RL, check, made, NEEDED)


def run(cfg: DictConfig, folder: Path | None = None) -> dict:
    """Configuration -> metrics. A finished run is read, an interrupted one continued, a new one begun."""
    return life.run(REINFORCE, cfg, folder)


def finished(folder: Path) -> dict | None:
    """The metrics of a finished run of reinforcement learning."""
    return runs.finished(folder, NEEDED)


def trained(folder: Path) -> Trainer:
    """The run in a folder as its last checkpoint has it, to look at."""
    cfg = runs.saved_config(folder, "render", runs.RL)
    check(cfg)
    env = make_env(cfg)
    trainer = Trainer(cfg, env, build_policy(cfg, env), torch.device("cpu"), folder, identity(cfg))
    state = checkpoint.load(folder)
    check_fits(trainer.identity, state["config"], folder)
    with checkpoint.taken(folder):
        trainer.load_state_dict(state)
    return trainer
