"""Runs of reinforcement learning: they repeat, survive a signal, and end in a sentence."""

import math
import os
import signal
import warnings

import numpy as np
import pytest
import torch

from tests.rl.small_runs import POLICIES, assert_equal_runs, at_episode, composed, rows, tiny, trainer_of
from tests.runs.rewriting import rewritten
from varnet.errors import CheckpointError, ConfigError, Diverged, Interrupted
from varnet.rl.episode import choose
from varnet.rl.run import make_env, run, trained
from varnet.rl.trainer import EVALUATION
from varnet.runs.folder import CONFIG, RL, folder_of
from varnet.runs.resuming import resumed
from varnet.train import checkpoint

pytest.importorskip("gymnasium", reason="pip install 'varnet[rl]'")


# ---- runs


@pytest.mark.parametrize("env", ["cartpole", "acrobot"])
@pytest.mark.parametrize("name", POLICIES)
def test_every_config_runs(env, name, tmp_path):
    cfg = tiny(tmp_path, f"env={env}", f"policy={name}", "schedule.episodes=2")
    metrics = run(cfg)
    folder = folder_of(cfg)
    assert (metrics["env"], metrics["policy"], metrics["episodes"], metrics["window"]) == (env, name, 2, 2)
    assert metrics["score"] == np.mean([row["score"] for row in rows(folder)])
    assert metrics["steps"] == rows(folder)[-1]["steps"] and run(cfg) == metrics
    assert list(folder.glob("events.out.tfevents.*")) and not list(folder.glob("*.part"))


def test_the_protocol():
    cartpole, acrobot = composed(), composed("env=acrobot")
    assert make_env(cartpole).spec.max_episode_steps == 200 and make_env(acrobot).spec.max_episode_steps == 500
    assert cartpole.policy.hidden == 256 and math.exp(composed("policy=parameter_noise").policy.log_sigma) == (
        pytest.approx(0.017, rel=1e-3)
    )


@pytest.mark.parametrize("name", POLICIES)
def test_a_seed_reproduces_its_scores(name, tmp_path):
    again = [tiny(tmp_path / f"{i}", f"policy={name}", f"seed={seed}") for i, seed in enumerate((3, 3, 4))]
    for cfg in again:
        run(cfg)
    first, same, other = map(folder_of, again)
    assert_equal_runs(first, same)
    assert [r["score"] for r in rows(first)] != [r["score"] for r in rows(other)]


def test_the_score_is_that_of_the_evaluation_episode(tmp_path):
    trainer = trainer_of(tiny(tmp_path, "policy=variance"), tmp_path)
    row = trainer.step()
    trainer.history.clear()
    assert trainer.play(EVALUATION).score == row["score"]  # after the update, with the noise of this evaluation


def test_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    cfg = tiny(tmp_path)
    run(cfg)
    events = EventAccumulator(str(folder_of(cfg)))
    events.Reload()
    assert [e.value for e in events.Scalars("evaluation/score")] == [r["score"] for r in rows(folder_of(cfg))]
    assert {"training/train_score", "training/entropy", "training/std"} <= set(events.Tags()["scalars"])


@pytest.mark.slow
@pytest.mark.parametrize("name, episodes", [("deterministic", 300), ("parameter_noise", 400), ("variance", 2500)])
def test_policies_learn_cartpole(name, episodes, tmp_path):
    assert run(composed(f"policy={name}", f"schedule.episodes={episodes}", f"out_dir={tmp_path}"))["score"] > 100


# ---- survival


@pytest.mark.parametrize(
    "name, number", [("deterministic", 3), ("parameter_noise", 5), ("variance", 7), ("variance", 12)]
)
def test_a_signal_saves_and_resuming_is_bit_for_bit(name, number, tmp_path, monkeypatch):
    whole, cut = (tiny(tmp_path / part, f"policy={name}") for part in ("whole", "cut"))
    run(whole)
    with monkeypatch.context() as patch:
        at_episode(number, lambda _: os.kill(os.getpid(), signal.SIGTERM), patch)
        with pytest.raises(Interrupted):
            run(cut)
    assert len(checkpoint.load(folder_of(cut))["history"]) == number
    run(resumed(folder_of(cut), [], RL), folder_of(cut))
    assert_equal_runs(folder_of(whole), folder_of(cut))


def test_a_policy_that_diverges_stops_and_keeps_its_checkpoint(tmp_path, monkeypatch):
    cfg = tiny(tmp_path)
    at_episode(7, lambda self: self.policy.dense2.sigma.data.fill_(math.nan), monkeypatch)
    with pytest.raises(Diverged, match=r"not finite in episode 8: lower schedule.lr=0.001; checkpoint: the last good"):
        run(cfg)
    state = checkpoint.load(folder_of(cfg))
    assert len(state["history"]) == 5 and all(torch.isfinite(t).all() for t in state["model"].values())


def test_a_greedy_policy_that_diverges_stops_too(tmp_path):
    for greedy in (True, False):
        with pytest.raises(FloatingPointError, match="not finite"):
            choose(np.array([math.nan, 0.0]), np.random.default_rng(0), greedy)
    cfg = tiny(tmp_path, "eval.actions=greedy", "schedule.lr=1e30", "checkpoint_every=1")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # the sentence alone
        with pytest.raises(Diverged, match=r"not finite in episode 1: .* checkpoint: none was written yet"):
            run(cfg)


@pytest.mark.parametrize("damage", ["history", "model", "optimizer"])
def test_a_checkpoint_of_something_else_is_said(damage, tmp_path):
    cfg = tiny(tmp_path)
    run(cfg)
    folder = folder_of(cfg)
    (folder / "metrics.json").unlink()
    state = checkpoint.load(folder)
    if damage == "history":
        del state["history"]
    else:
        state[damage] = {"strange": torch.zeros(1)}
    torch.save(state, folder / checkpoint.NAME)
    with pytest.raises(CheckpointError, match=r"is not one of such a run \(.*\): start it anew"):
        run(cfg)


@pytest.mark.parametrize("where", ["command line", "stored"])
def test_a_task_names_no_module_to_import(tmp_path, monkeypatch, where):
    """gymnasium imports what stands before a colon."""
    (tmp_path / "planted_task.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    cfg = tiny(tmp_path)
    if where == "stored":
        run(cfg)
        folder = folder_of(cfg).rename(tmp_path / "of a stranger")
        cfg.env.id = "planted_task:CartPole-v1"
        rewritten(folder, cfg)
        assert "planted_task" in (folder / CONFIG).read_text()
        opening = (lambda: trained(folder), lambda: run(resumed(folder, [], RL), folder))
    else:
        cfg.env.id = "planted_task:CartPole-v1"
        opening = (lambda: run(cfg), lambda: make_env(cfg))
    for opened in opening:
        with pytest.raises(ConfigError, match=r"env.id=planted_task:CartPole-v1 is invalid: use the name of a task"):
            opened()
    assert not (tmp_path / "imported").exists()
