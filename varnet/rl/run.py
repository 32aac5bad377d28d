"""A configuration of configs/rl -> a run and its numbers. Folders, resuming and checkpoints are those of varnet.run."""

import json
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from omegaconf import DictConfig
from torch import nn

from varnet import checkpoint, device
from varnet import run as runs
from varnet.config import CHECKS as COMMON
from varnet.config import ConfigError, between, check_values, number, one_of, or_null, plain, shown, whole
from varnet.param import PARAMS, Parameterization
from varnet.rl import env as envs
from varnet.rl import policy as policies
from varnet.rl.trainer import Trainer

WINDOW = 100  # evaluation episodes at the end that make the final score
KEYS = (
    "name", "seed", "out_dir", "resume", "render", "device", "threads", "jobs", "checkpoint_every",
)  # fmt: skip
CHECKS = {
    **{key: COMMON[key] for key in ("seed", "name", "out_dir", "threads", "checkpoint_every")},
    "jobs": or_null(between(1, 1024)),
    "schedule.episodes": whole(1),
    "schedule.lr": number(0, above=True),
    "reinforce.gamma": (lambda v: number(0)[0](v) and v <= 1, "a number from 0 to 1"),
    "reinforce.baseline": (lambda v: v is None or (number(0)[0](v) and v < 1), "a number from 0 to below 1, or null"),
    "eval.actions": one_of("sample", "greedy"),
    "env.max_steps": between(1, 1_000_000),
    "env.id": (lambda v: isinstance(v, str) and v != "", "the name of a task of gymnasium"),
    "policy.hidden": whole(1),
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
    check_values(cfg, GROUPS, KEYS, CHECKS, "python scripts/rl.py")
    policy = plain(cfg.policy)
    given = [key for key in OPTIONS if policy.get(key) is not None]
    if policy["param"] == "deterministic" and given:
        raise ConfigError(
            f"policy.{given[0]}={shown(policy[given[0]])} has no meaning for policy.param=deterministic, which has no "
            "random weights: leave it out"
        )
    if policy["param"] != "deterministic" and policy["layers"] in ("none", []):
        raise ConfigError(
            f"policy.layers={shown(policy['layers'])} leaves no layer random: use policy=deterministic, or a layer"
        )


def build_policy(cfg: DictConfig, env) -> nn.Sequential:
    """The policy of a run; errors name the configuration's keys."""
    options = {key: value for key, value in plain(cfg.policy).items() if key != "name" and value is not None}
    try:
        return policies.build(*envs.sizes(env), **options)
    except ValueError as error:
        raise ConfigError(f"policy.{error}" if str(error).startswith(tuple(options)) else str(error)) from error
    except (RuntimeError, MemoryError) as error:
        raise ConfigError(f"policy.hidden={cfg.policy.hidden} gives a network that does not fit in memory") from error


def make_env(cfg: DictConfig, render: bool = False):
    return envs.make(cfg.env.name, cfg.env.id, cfg.env.max_steps, render)


def run(cfg: DictConfig, folder: Path | None = None) -> dict:
    """Configuration -> metrics. A finished run is read, an interrupted one continued, a new one begun."""
    check(cfg)
    where = device.find(cfg.device)
    folder = folder or runs.folder_of(cfg)
    if metrics := finished(folder):
        return metrics
    env = make_env(cfg)
    from threadpoolctl import threadpool_limits  # of scikit-learn; numpy's products must not fight over the cores

    with threadpool_limits(cfg.threads):
        device.tune_cpu(cfg.threads)
        torch.manual_seed(cfg.seed)
        policy = build_policy(cfg, env)
        with runs.opened(folder, cfg):
            trainer = Trainer(cfg, env, policy, where, folder)
            if checkpoint.exists(folder):
                trainer.load_state_dict(checkpoint.load(folder, put_aside=True))
                print(f"{folder}: going on after episode {trainer.episode}", flush=True)
            provenance = runs.provenance(cfg)  # now: the checkout may change while the run goes on
            trainer.fit()
            return finish(trainer, provenance)


def finish(trainer: Trainer, provenance: dict) -> dict:
    """The final numbers, on disk."""
    cfg = trainer.cfg
    scores = [row["score"] for row in trainer.history]
    metrics = {
        "score": float(np.mean(scores[-WINDOW:])),
        "window": min(WINDOW, len(scores)),
        "name": str(cfg.name),
        "env": cfg.env.name,
        "policy": cfg.policy.name,
        "episodes": trainer.episode,
        "steps": trainer.history[-1]["steps"],
        "seconds": trainer.seconds,
        **provenance,
    }
    metrics["versions"]["gymnasium"] = version("gymnasium")
    checkpoint.write_atomically(trainer.folder / runs.METRICS, (json.dumps(metrics, indent=2) + "\n").encode())
    return metrics


def finished(folder: Path) -> dict | None:
    """The metrics of a finished run; a file that cannot be read is made anew from the checkpoint."""
    try:
        metrics = json.loads((folder / runs.METRICS).read_text())
    except (OSError, ValueError):
        return None
    needed = {"score", "window", "env", "policy", "episodes", "seed", "commit"}
    return metrics if isinstance(metrics, dict) and needed <= metrics.keys() else None


def trained(folder: Path) -> Trainer:
    """The run in a folder as its last checkpoint has it, to look at."""
    cfg = runs.saved_config(folder, "render=", runs.RL)
    check(cfg)
    env = make_env(cfg)
    trainer = Trainer(cfg, env, build_policy(cfg, env), torch.device("cpu"), folder)
    trainer.load_state_dict(checkpoint.load(folder))
    return trainer
