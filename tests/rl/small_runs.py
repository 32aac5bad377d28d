"""Short runs of reinforcement learning, and what several tests ask of them."""

import json
from pathlib import Path

import torch
from omegaconf import DictConfig

from varnet.rl.run import build_policy, make_env
from varnet.rl.trainer import Trainer
from varnet.runs import composing
from varnet.runs.identity import identity
from varnet.train import checkpoint

POLICIES = ("deterministic", "parameter_noise", "variance")


def composed(*overrides: str) -> DictConfig:
    return composing.composed(*overrides, name="rl")


def tiny(folder: Path, *overrides: str) -> DictConfig:
    """Twelve short episodes with a small policy, results in `folder`."""
    small = ("schedule.episodes=12", "env.max_steps=20", "policy.hidden=16", "checkpoint_every=5")
    return composed(f"out_dir={folder}", *small, *overrides)


def trainer_of(cfg: DictConfig, folder: Path) -> Trainer:
    torch.manual_seed(cfg.seed)
    env = make_env(cfg)
    return Trainer(cfg, env, build_policy(cfg, env), torch.device("cpu"), folder, identity(cfg))


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def assert_equal_runs(a: Path, b: Path) -> None:
    """Bit for bit."""
    assert rows(a) == rows(b)
    mine, other = (checkpoint.load(folder) for folder in (a, b))
    for key, tensor in mine["model"].items():
        assert torch.equal(tensor, other["model"][key]), key
    assert torch.equal(mine["baseline"]["mean"], other["baseline"]["mean"])


def at_episode(number: int, act, patch) -> None:
    """act(trainer) after so many episodes."""
    original = Trainer.step

    def step(self):
        row = original(self)
        if self.episode == number:
            act(self)
        return row

    patch.setattr(Trainer, "step", step)
