"""One run: per episode one draw of the weights, one update (Adam), and one evaluation episode with a draw of its own.

All that is random in an episode follows from the seed and the episode's number. A run that goes on after a kill needs
no state of any generator for it, and runs of the same seed start their episodes alike whatever their policy is.
"""

import contextlib
import json
import math
import signal
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from omegaconf import DictConfig
from torch import nn

from varnet import resample
from varnet.base.checks import number
from varnet.base.files import write_atomically
from varnet.base.signals import Handlers, give_back, handled
from varnet.errors import Diverged, Interrupted
from varnet.nn.layers import layers_of
from varnet.rl.episode import Episode, play
from varnet.rl.policy import acting
from varnet.rl.reinforce import Baseline, loss, returns
from varnet.train import checkpoint, events
from varnet.train.history import HISTORY
from varnet.train.restoring import check_optimizer, check_weights

# Of a line of history. score: of the evaluation episode; train_score: of the one learned from; steps: of all training
# episodes so far; std: of a random weight, the root of the mean variance over the random layers.
WINDOW = 100  # evaluation episodes at the end that make the final score
COLUMNS = ("episode", "score", "train_score", "steps", "entropy", "gradient", "std")
TRAINING, EVALUATION = 0, 1
PATIENCE = 2.0  # seconds within which signals count as one


class Trainer:
    """Learns from one episode after the other, and survives an end at any of them."""

    def __init__(
        self, cfg: DictConfig, env, policy: nn.Sequential, device: torch.device, folder: Path, identity: dict
    ):  # fmt: skip
        """identity: what the checkpoints say that they are of."""
        self.cfg, self.env, self.folder, self.identity = cfg, env, folder, identity
        self.policy = policy.to(device)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=cfg.schedule.lr, fused=True)
        self.baseline = Baseline(cfg.env.max_steps, cfg.reinforce.baseline)
        self.history: list[dict] = []
        self.seconds = 0.0
        self.signal: int | None = None
        self.limits = None  # of the threads of numpy, until the end

    @property
    def episode(self) -> int:
        """Episodes learned from so far."""
        return len(self.history)

    # ---- one episode

    def step(self) -> dict:
        """Learn from one episode, evaluate with another: a line of history."""
        try:
            played = self.play(TRAINING)
            entropy, gradient = self.update(played)
            score = self.play(EVALUATION, greedy=self.cfg.eval.actions == "greedy").score
        except FloatingPointError as error:
            kept = "the last good one is kept" if checkpoint.exists(self.folder) else "none was written yet"
            raise Diverged(
                f"{error} in episode {self.episode + 1}: lower schedule.lr={self.cfg.schedule.lr}; checkpoint: {kept}"
            ) from error
        steps = (self.history[-1]["steps"] if self.history else 0) + len(played.rewards)
        values = (self.episode + 1, score, played.score, steps, entropy, gradient, self.std())
        self.history.append(dict(zip(COLUMNS, values, strict=True)))
        return self.history[-1]

    def play(self, phase: int, greedy: bool = False, watch=None, env=None) -> Episode:
        """An episode with new weights."""
        rng = np.random.default_rng([self.cfg.seed, self.episode, phase])
        torch.manual_seed(int(rng.integers(2**63 - 1)))
        resample(self.policy)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is noticed when it chooses
            return play(env or self.env, acting(self.policy), rng, greedy, watch)

    def update(self, played: Episode) -> tuple[float, float]:
        """(entropy, norm of the gradient); the weights are still those that played the episode."""
        advantages = self.baseline.advantages(returns(played.rewards, self.cfg.reinforce.gamma))
        value, entropy = loss(self.policy, played, advantages)
        self.optimizer.zero_grad(set_to_none=True)
        value.backward()
        norm = float(torch.nn.utils.get_total_norm([p.grad for p in self.policy.parameters()]))
        if not math.isfinite(norm):
            raise FloatingPointError("the gradient is not finite")
        self.optimizer.step()
        return float(entropy), norm

    @torch.no_grad()
    def std(self) -> float:
        variances = [layer.param.variance(layer).flatten() for layer in layers_of(self.policy).values()]
        return float(torch.cat(variances).mean().sqrt()) if variances else 0.0

    # ---- the loop

    def fit(self) -> list[dict]:
        """Train to the end and return the history."""
        from varnet.train.event_writer import EventWriter

        episodes = self.cfg.schedule.episodes
        events.keep(self.folder, self.episode)  # what was logged after the checkpoint is logged anew
        writer = EventWriter(self.folder)
        with self._signals():
            start = time.monotonic()
            while self.episode < episodes and self.signal is None:
                row = self.step()
                for key in COLUMNS[1:]:
                    writer.add_scalar(
                        f"{'evaluation' if key == 'score' else 'training'}/{key}", row[key], row["episode"]
                    )
                if self.episode % self.cfg.checkpoint_every == 0:
                    self.seconds, start = self.seconds + time.monotonic() - start, time.monotonic()
                    writer.flush()
                    self.save()
                if self.episode % max(1, episodes // 10) == 0:
                    print(self.note(), flush=True)
            self.seconds += time.monotonic() - start
            writer.flush()
            self.save()
        if self.signal is not None:
            raise Interrupted(self.signal)
        return self.history

    def note(self) -> str:
        last = [row["score"] for row in self.history[-100:]]
        return (
            f"{self.cfg.name} seed {self.cfg.seed}: episode {self.episode}/{self.cfg.schedule.episodes}, "
            f"score {np.mean(last):.1f} (last {len(last)})"
        )

    def _signals(self) -> contextlib.AbstractContextManager:
        """SIGTERM and Ctrl-C are noted and acted on after the episode; a second one acts at once, unless it follows at
        its heels: a sweep and its terminal may both send one."""
        asked = math.inf

        def note(number: int, before: Handlers) -> None:
            nonlocal asked
            self.signal, now = number, time.monotonic()
            if now > asked + PATIENCE:
                give_back(number, before)
                signal.raise_signal(number)
            asked = min(asked, now)

        return handled(note)

    @property
    def progress(self) -> str:
        return f"episode {self.episode}"

    def metrics(self) -> dict:
        """The final numbers."""
        scores = [row["score"] for row in self.history]
        return {
            "score": float(np.mean(scores[-WINDOW:])),
            "window": min(WINDOW, len(scores)),
            "name": str(self.cfg.name),
            "env": self.cfg.env.name,
            "policy": self.cfg.policy.name,
            "episodes": self.episode,
            "steps": self.history[-1]["steps"],
            "seconds": self.seconds,
            "versions": {"gymnasium": version("gymnasium")},
        }

    def close(self) -> None:
        if self.limits is not None:
            self.limits.restore_original_limits()

    # ---- survival

    def save(self) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in self.history)
        checkpoint.save(self.folder, self.state_dict())
        write_atomically(self.folder / HISTORY, lines.encode())

    def state_dict(self) -> dict:
        return {
            "model": self.policy.state_dict(), "optimizer": self.optimizer.state_dict(),
            "baseline": self.baseline.state_dict(), "history": self.history, "seconds": self.seconds,
            "config": self.identity,
        }  # fmt: skip

    def load_state_dict(self, state: dict) -> None:
        check_weights(state["model"], self.policy)
        check_optimizer(state["optimizer"], self.optimizer)
        history = state["history"]
        if not (isinstance(history, list) and all(map(_is_row, history, range(1, len(history) + 1)))):
            raise ValueError("its history is none of episodes")
        self.policy.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.baseline.load_state_dict(state["baseline"])
        self.history, self.seconds = history, number(0)("seconds", state["seconds"])


def _is_row(row: object, episode: int) -> bool:
    """A line of history: a number in every column, in turn."""
    fits = isinstance(row, dict) and all(isinstance(row.get(key), int | float) for key in COLUMNS)
    return fits and row["episode"] == episode
