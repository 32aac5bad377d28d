"""Parameter noise in reinforcement learning: the gradient, the noise of an episode, runs that repeat and survive."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from torch import nn

import varnet
from tests.composing import ROOT
from tests.statistics_helper import assert_mean
from varnet.cli import rl
from varnet.errors import CheckpointError, ConfigError, Diverged, Interrupted
from varnet.launch import pool
from varnet.launch.command import flags_first
from varnet.paper import fig6 as report
from varnet.rl import policy as policies
from varnet.rl import reinforce, render
from varnet.rl.episode import Episode, choose, play
from varnet.rl.grid import grid
from varnet.rl.reinforce import Baseline
from varnet.rl.run import build_policy, make_env, run
from varnet.rl.trainer import EVALUATION, TRAINING, Trainer
from varnet.runs.folder import RL, folder_of, saved_config
from varnet.runs.identity import digest
from varnet.runs.overrides import explain
from varnet.runs.resuming import resumed
from varnet.train import checkpoint

pytest.importorskip("gymnasium", reason="pip install 'varnet[rl]'")
CONFIGS = ROOT / "configs" / "rl"
POLICIES = ("deterministic", "parameter_noise", "variance")
PARAMS = ("deterministic", "additive", "zero_mean")


def composed(*overrides: str):
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose("rl", list(overrides))


def tiny(folder: Path, *overrides: str):
    """Twelve short episodes with a small policy, results in `folder`."""
    small = ("schedule.episodes=12", "env.max_steps=20", "policy.hidden=16", "checkpoint_every=5")
    return composed(f"out_dir={folder}", *small, *overrides)


def trainer_of(cfg, folder: Path) -> Trainer:
    torch.manual_seed(cfg.seed)
    env = make_env(cfg)
    return Trainer(cfg, env, build_policy(cfg, env), torch.device("cpu"), folder)


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def assert_equal_runs(a: Path, b: Path) -> None:
    """Bit for bit."""
    assert rows(a) == rows(b)
    mine, other = (checkpoint.load(folder) for folder in (a, b))
    for key, tensor in mine["model"].items():
        assert torch.equal(tensor, other["model"][key]), key
    assert torch.equal(mine["baseline"]["mean"], other["baseline"]["mean"])


# ---- the gradient


class Bandit:
    """One step, one observation, a reward by action."""

    def __init__(self, rewards):
        self.rewards = rewards

    def reset(self, seed=None):
        return np.array([1.0]), {}

    def step(self, action):
        return np.array([1.0]), self.rewards[action], True, False, {}


def gradients(policy: nn.Module, logits, rewards, baseline: float, episodes: int) -> torch.Tensor:
    """REINFORCE's estimates on the bandit, an episode each; `logits()` gives what acts, for new weights if it draws."""
    env, rng, out = Bandit(rewards), np.random.default_rng(0), []
    for _ in range(episodes):
        played = play(env, logits(), rng)
        value, _ = reinforce.loss(policy, played, reinforce.returns(played.rewards, 0.9) - baseline)
        out.append(torch.cat([g.flatten() for g in torch.autograd.grad(-value, list(policy.parameters()))]))
    return torch.stack(out)


@pytest.mark.parametrize("baseline", [0.0, 0.7])
@pytest.mark.parametrize("param", PARAMS)
def test_gradient_of_a_held_policy_is_that_of_the_expected_reward(param, baseline):
    rewards = (1.0, -0.5)
    policy = policies.build(1, 2, hidden=4, param=param).double()
    varnet.set_mode(policy, "weights")
    expected = (policy(torch.ones(1, 1).double()).softmax(1)[0] * torch.tensor(rewards).double()).sum()
    exact = torch.cat([g.flatten() for g in torch.autograd.grad(expected, list(policy.parameters()))])
    acts = policies.acting(policy)
    played = gradients(_float_input(policy), lambda: acts, rewards, baseline, 2000)
    assert exact.abs().max() > 0.01
    assert_mean(played, exact)


def _float_input(policy: nn.Module) -> nn.Module:
    policy.register_forward_pre_hook(lambda _, inputs: (inputs[0].double(),))
    return policy


@pytest.mark.parametrize("baseline", [0.0, 0.7])
def test_gradient_of_a_noisy_two_armed_bandit_in_closed_form(baseline):
    """Logits are the weights mu + sigma eps; p(arm 1) = f(d) with f the sigmoid and d = w_1 - w_0 ~ N(m, s^2). By
    Stein's lemma dJ/dmu_1 = -dJ/dmu_0 = (r_1 - r_0) E f'(d) and dJ/dlog sigma_i^2 = (r_1 - r_0) sigma_i^2 E f''(d) / 2.
    """
    rewards, mu, log_sigma2 = (0.2, 1.0), torch.tensor([0.8, -0.8]), torch.tensor([0.5, 1.0])
    layer = varnet.variational(nn.Linear(1, 2, bias=False), param="additive", prior="none")
    with torch.no_grad():
        layer.mu.copy_(mu[:, None])
        layer.log_sigma2.copy_(log_sigma2[:, None])
    policy = varnet.set_mode(nn.Sequential(layer), "weights")
    m, s = float(mu[1] - mu[0]), math.sqrt(float(log_sigma2.exp().sum()))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    p = 1 / (1 + np.exp(-(m + s * nodes)))
    first, second = ((weights * v).sum() / weights.sum() for v in (p * (1 - p), p * (1 - p) * (1 - 2 * p)))
    gain = rewards[1] - rewards[0]
    exact = [-gain * first, gain * first, *(gain * float(v) * second / 2 for v in log_sigma2.exp())]

    def drawn():
        varnet.resample(policy)
        weight = layer.weight.detach().numpy()
        return lambda x: weight @ x

    assert [name for name, _ in policy.named_parameters()] == ["0.mu", "0.log_sigma2"]
    estimates = gradients(policy, drawn, rewards, baseline, 5000)
    assert_mean(estimates, torch.tensor(exact))
    assert (estimates.mean(0).abs() > 5 * estimates.std(0) / 5000**0.5).all()  # a gradient of 0 would be noticed


def test_returns_and_baseline():
    np.testing.assert_allclose(reinforce.returns(np.array([1.0, 2.0, 4.0]), 0.5), [3.0, 4.0, 4.0])
    baseline = reinforce.Baseline(3, 0.75)
    np.testing.assert_allclose(baseline.advantages(np.array([3.0, 4.0, 4.0])), [3.0, 4.0, 4.0])
    np.testing.assert_allclose(baseline.advantages(np.array([1.0])), [-2.0])  # the second counts for a half
    np.testing.assert_allclose(baseline.mean, [2.0, 2.0, 2.0])
    for _ in range(5):
        baseline.advantages(np.array([2.0, 2.0, 2.0]))
    baseline.advantages(np.array([6.0, 2.0]))
    np.testing.assert_allclose(baseline.mean, [3.0, 2.0, 1.5])
    none = reinforce.Baseline(3, None)
    for _ in range(2):
        np.testing.assert_allclose(none.advantages(np.array([3.0, 4.0])), [3.0, 4.0])


def test_the_loss_is_that_of_the_chosen_actions():
    policy = policies.build(4, 3, hidden=5, param="zero_mean")
    played = Episode(
        np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32), np.array([0, 2, 1, 1, 0, 2]), None
    )
    advantages = np.arange(6.0)
    value, entropy = reinforce.loss(policy, played, advantages)
    p = policy(torch.from_numpy(played.observations)).softmax(1)
    expected = -sum(advantages[t] * p[t, a].log() for t, a in enumerate(played.actions))
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(entropy, torch.distributions.Categorical(probs=p).entropy().mean())


# ---- the policy and its noise


@pytest.mark.parametrize("param", PARAMS)
def test_acting_is_the_policys_forward(param):
    policy = policies.build(4, 3, hidden=32, param=param)
    x = torch.randn(10, 4)
    acts = policies.acting(policy)
    ours = torch.stack([torch.from_numpy(acts(row.numpy())) for row in x])
    torch.testing.assert_close(ours, policy(x))
    varnet.resample(policy)
    assert torch.allclose(ours, policy(x), atol=1e-6) == (param == "deterministic")


def test_what_the_three_policies_are(tmp_path):
    for name, learned in zip(POLICIES, ({"mu"}, {"mu", "log_sigma2"}, {"sigma"}), strict=True):
        policy = trainer_of(composed(f"policy={name}"), tmp_path).policy
        assert [tuple(layer.weight.shape) for layer in (policy.dense1, policy.dense2, policy.dense3)] == [
            (256, 4), (256, 256), (2, 256),
        ]  # fmt: skip
        assert list(varnet.layers.layers_of(policy)) == ["dense2"]
        assert {n for n, _ in policy.dense2.named_parameters()} == learned | {"bias"}
        assert policy.dense2.prior.name == "none"


@pytest.mark.parametrize("name", POLICIES)
def test_noise_is_fixed_within_an_episode_and_new_in_the_next(name, tmp_path):
    trainer = trainer_of(tiny(tmp_path, f"policy={name}"), tmp_path)
    layer, episodes = trainer.policy.dense2, []
    for number in range(2):
        for phase in (TRAINING, EVALUATION):
            seen = []
            played = trainer.play(phase, watch=lambda _, seen=seen: seen.append(layer.weight.detach().clone()))
            assert len(seen) == len(played.rewards) > 1 and all(torch.equal(w, seen[0]) for w in seen)
            trained_with = layer.weight.detach()
            assert torch.equal(trained_with, seen[0])  # what the update differentiates
            episodes.append(seen[0])
        trainer.history.append({"episode": number + 1})
    same = [torch.equal(a, b) for i, a in enumerate(episodes) for b in episodes[:i]]
    assert all(same) if name == "deterministic" else not any(same)


def test_actions_follow_the_softmax():
    rng, logits = np.random.default_rng(0), np.array([0.5, -1.0, 1.2])
    drawn = torch.tensor([choose(logits, rng, False) for _ in range(5000)])
    assert_mean(nn.functional.one_hot(drawn, 3), torch.tensor(logits).softmax(0))
    assert choose(logits, rng, True) == 2
    assert all(choose(np.array([0.0, 1000.0]), rng, False) == 1 for _ in range(10))
    for bad in ([np.nan, 0.0], [np.inf, np.inf]):
        with pytest.raises(FloatingPointError), np.errstate(invalid="ignore"):
            choose(np.array(bad), rng, False)


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


def at_episode(number: int, act, patch) -> None:
    original = Trainer.step

    def step(self):
        row = original(self)
        if self.episode == number:
            act(self)
        return row

    patch.setattr(Trainer, "step", step)


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


def killed_at_eight(cfg):
    """A run that is killed without warning, three episodes after a checkpoint."""
    at_episode(8, lambda _: os.kill(os.getpid(), signal.SIGKILL), pytest.MonkeyPatch())
    run(cfg)


def failing(number: int) -> int:
    if number == 1:
        raise ValueError("one is\nwrong")
    if number == 2:
        os._exit(7)
    return 10 * number


def test_processes_that_fail_or_die_leave_the_others_alone(tmp_path):
    seen = {}
    outcomes = pool.run_all(failing, [0, 1, 2, 3], jobs=2, done=seen.__setitem__)
    assert [o.result for o in outcomes] == [0, None, None, 30] and seen == dict(enumerate(outcomes))
    assert outcomes[1].error == "one is wrong" and "exit code 7" in outcomes[2].error

    whole, cut = (tiny(tmp_path / part) for part in ("whole", "cut"))  # in a process already begun: see above
    run(whole)
    (outcome,) = pool.run_all(killed_at_eight, [cut])
    assert "SIGKILL" in outcome.error and len(checkpoint.load(folder_of(cut))["history"]) == 5
    run(cut)
    assert_equal_runs(folder_of(whole), folder_of(cut))


def test_a_signal_stops_a_sweep_whose_runs_save(tmp_path):
    short, long, later = tiny(tmp_path), tiny(tmp_path, "schedule.episodes=1000000"), tiny(tmp_path, "seed=1")

    def stop_once_the_other_has_saved(*_):
        if (folder_of(short) / "metrics.json").exists() and not stopped:
            wait_for(lambda: checkpoint.exists(folder_of(long)))
            stopped.append(os.kill(os.getpid(), signal.SIGTERM))

    stopped = []
    with pytest.raises(Interrupted) as caught:
        pool.run_all(run, [short, long, later], 2, stop_once_the_other_has_saved)
    assert caught.value.exit_code == 143 and not folder_of(later).exists()
    saved = checkpoint.load(folder_of(long))["history"]
    assert len(saved) >= 5 and rows(folder_of(long)) == saved


def wait_for(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


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


def test_a_signal_while_a_run_is_starting_reaches_it(tmp_path, monkeypatch):
    start = pool._start

    def interrupted(*given):
        found = start(*given)
        signal.raise_signal(signal.SIGTERM)
        return found

    monkeypatch.setattr(pool, "_start", interrupted)
    begun = time.monotonic()
    with pytest.raises(Interrupted):
        pool.run_all(time.sleep, [100], jobs=1)
    assert time.monotonic() - begun < 60


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
    with pytest.raises(CheckpointError, match="is not one of such a run: start it anew"):
        run(cfg)


def test_an_episode_longer_than_any_before():
    baseline = Baseline(2, 0.5)
    assert baseline.advantages(np.array([1.0, 2.0])).tolist() == [1, 2]
    assert baseline.advantages(np.array([1.0, 2.0, 3.0])).tolist() == [0, 0, 3]
    assert baseline.mean.tolist() == [1, 2, 1.5]


# ---- wrong input

BAD = {
    "env=pong": "env=pong is not known: choose one of acrobot, cartpole",
    "policy=varianc": "policy=varianc is not known: .*did you mean policy=variance",
    "env.id=Nope-v0": "env.id=Nope-v0 cannot be made",
    "env.id=Pendulum-v1": "env.id=Pendulum-v1 does not do: the policy takes a list of numbers and chooses one of some",
    "env.max_steps=-1": "env.max_steps=-1 does not do: use a whole number from 1",
    "schedule.episodes=-5": "schedule.episodes=-5 does not do: use a whole number from 1",
    "policy.name=mine": "schedule.lr has no value .*env.lr.mine.*: give one, a number above 0",
    "schedule.lr=-0.1": "schedule.lr=-0.1 does not do: use a number above 0",
    "reinforce.gamma=1.5": "reinforce.gamma=1.5 does not do: use a number from 0 to 1",
    "reinforce.baseline=1": "reinforce.baseline=1 does not do",
    "seed=-1": "seed=-1 does not do: use a whole number from 0",
    "jobs=0": "jobs=0 does not do",
    "policy.hidden=0": "policy.hidden=0 does not do",
    "policy.param=foo": "policy.param=foo does not do: use one of zero_mean, ",
    "policy.param=null": "policy.param=null does not do",
    "policy.layers=none": "policy.layers=none leaves no layer random: use policy=deterministic",
    "policy.layers=[]": "policy.layers=.* leaves no layer random",
    "policy.param=deterministic": "policy.learn=sigma has no meaning for policy.param=deterministic",
    "policy.log_sigma=1e9": r"policy.log_sigma=1e\+09 does not do: use a number up to 43",
    "+policy.prior=student": "there is no key policy.prior; choose from: name, param",
    "+env.gravity=1": "there is no key env.gravity",
    "+schedule.foo=1": "there is no key schedule.foo",
    "+reinforce.foo=1": "there is no key reinforce.foo",
    "+eval.every=1": "there is no key eval.every; choose from: actions",
    "env.max_steps=1000000000": "env.max_steps=1000000000 does not do: use a whole number from 1 to 1000000",
    "env.id=a:b:c": "env.id=a:b:c cannot be made",
    "policy.layers=[dense9]": "policy.layers: there is no layer 'dense9'; choose from: dense1, dense2, dense3",
    "policy.noise=cauchy": "policy.noise='cauchy' is not known",
    "eval.actions=best": "eval.actions=best does not do: use one of sample, greedy",
    "+foo=1": "foo=1: there is no key foo",
    "device=tpu": "device='tpu' is not known",
}


@pytest.mark.parametrize("override", BAD)
def test_wrong_values_are_refused_before_anything_is_written(override, tmp_path):
    with pytest.raises(ConfigError, match=BAD[override]) as caught:
        try:
            cfg = tiny(tmp_path, override)
        except Exception as error:
            raise ConfigError(explain(error, [override])) from error
        run(cfg)
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


def test_a_missing_gymnasium_is_said_with_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ConfigError, match=r"gymnasium, which is not installed: pip install 'varnet\[rl\]'"):
        run(tiny(tmp_path))
    assert list(tmp_path.iterdir()) == []


# ---- the command, the report, the GIF


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "rl.py"), *arguments], capture_output=True, text=True, cwd=ROOT,
        timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_sweep_runs_its_seeds_and_survives_one_that_fails(tmp_path):
    shrink = [f"out_dir={tmp_path}", "schedule.episodes=3", "env.max_steps=20", "policy.hidden=16"]
    broken = folder_of(composed(*shrink, "seed=1"))
    broken.parent.mkdir(parents=True)
    broken.write_text("a file where the folder should be")
    done = command("policy=variance", "env=cartpole", "seed=range(3)", "-m", "jobs=2", *shrink)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: 1 of 3 runs failed (cartpole_variance seed 1: out_dir=")
    assert len(report.find(tmp_path)) == 2 and (tmp_path / "figure6.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "fig6.json").read_text()) == report.results(report.find(tmp_path))


def test_a_sweep_runs_each_run_once_and_needs_one(tmp_path):
    assert [cfg.seed for cfg in grid([f"out_dir={tmp_path}", "seed=0,1,0"])] == [0, 1]
    with pytest.raises(ConfigError, match=r"the sweep seed=range\(0\) has no run"):
        grid(["seed=range(0)"])
    with pytest.raises(ConfigError, match=r"seed=99999999999999999999 "):
        grid(["seed=0,99999999999999999999"])
    for wrong in ("seed=range(0,2,0)", "seed=interval(0,3)", "env=cartpole,"):
        with pytest.raises(ConfigError, match=rf"^{re.escape(wrong)} cannot be read as a sweep \("):
            grid([wrong])


def test_a_sweep_has_the_configurations_of_its_single_runs():
    assert [cfg.seed for cfg in grid(["seed=1", "++seed=5"])] == [5]
    found = grid(["policy=variance,deterministic", "seed=0,7", "schedule.lr=0.01"])
    wanted = [(policy, seed) for policy in ("variance", "deterministic") for seed in (0, 7)]
    assert found == [composed(f"policy={policy}", f"seed={seed}", "schedule.lr=0.01") for policy, seed in wanted]


def sleeping(folder: Path) -> None:
    """A run that says when it begins and when it is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: (folder / "ended").write_text(""))
    (folder / "begun").write_text("")
    wait_for((folder / "ended").exists)


def test_runs_end_with_a_sweep_that_is_killed(tmp_path):
    code = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}]
from pathlib import Path
from tests.rl.test_rl import sleeping
from varnet.launch import pool
if __name__ == "__main__":
    pool.run_all(sleeping, [Path({str(tmp_path)!r})])
"""
    (tmp_path / "sweep.py").write_text(code)
    sweep = subprocess.Popen([sys.executable, str(tmp_path / "sweep.py")])
    wait_for((tmp_path / "begun").exists)
    sweep.kill()
    sweep.wait()
    wait_for((tmp_path / "ended").exists)


def test_the_command_says_one_sentence():
    done = command("-m", "policy=varianc", "seed=0,1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: policy=varianc is not known") and done.stderr.count("\n") == 1


def test_folders_given_by_name(tmp_path, capsys):
    """Hydra's + and ++ begin no other run, and what would have no effect is refused."""
    cfg = tiny(tmp_path, "schedule.episodes=2")
    run(cfg)
    folder = folder_of(cfg)
    before = sorted(path.name for path in tmp_path.iterdir())
    for words, arguments in {
        "resume=nowhere is not a folder": ["++resume=nowhere"],
        "eval.actions=greedy has no meaning beside render=": [f"render={folder}", "eval.actions=greedy"],
        "-m has no meaning beside resume=": [f"resume={folder}", "-m"],
        "name the choices": ["-m", "policy=glob(*)"],
    }.items():
        place = [] if "eval" in words else [f"out_dir={tmp_path}"]
        with pytest.raises(SystemExit) as caught:
            rl.command_line(flags_first([*arguments, *place]))
        said = capsys.readouterr().err
        assert caught.value.code == 2 and words in said and said.count("\n") == 1, said
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    with pytest.raises(ConfigError, match=r"is a run of scripts/rl.py: name the folder of a run of train.py"):
        resumed(folder, [])


def test_a_trial_does_not_replace_the_figure_of_other_runs(tmp_path):
    sweep = [finished_run(tmp_path, "cartpole", "deterministic", seed, [9.0] * 150) for seed in range(3)]
    rl.summarise(sweep[2:], tmp_path)
    rows = json.loads((tmp_path / "fig6.json").read_text())
    assert rows[0]["n"] == 3, "seeds of another sweep count"
    trial = finished_run(tmp_path / "trial", "cartpole", "deterministic", 0, [9.0] * 2, **{"schedule.episodes": 2})
    rl.summarise([trial], tmp_path)
    assert json.loads((tmp_path / "fig6.json").read_text()) == rows
    (trial,) = tmp_path.glob("fig6-*.json")
    assert json.loads(trial.read_text())[0]["n"] == 1 and list(tmp_path.glob("figure6-*.png"))


def finished_run(folder: Path, env: str, policy: str, seed: int, scores: list[float], **changes) -> Path:
    """The folder of a finished run, written by hand."""
    changes = {"env": env, "policy": policy, "seed": seed, "schedule.episodes": 150, **changes}
    cfg = composed(*(f"{key}={value}" for key, value in changes.items()))
    path = folder / f"{env}-{policy}-{seed}"
    (path / ".hydra").mkdir(parents=True)
    OmegaConf.save(cfg, path / ".hydra/config.yaml", resolve=True)
    (path / "history.jsonl").write_text("".join(json.dumps({"score": score}) + "\n" for score in scores))
    about = {"env": env, "policy": cfg.policy.name, "seed": seed, "window": 100, "episodes": len(scores)}
    metrics = {"score": 0, "commit": "abc", **about}
    (path / "metrics.json").write_text(json.dumps(metrics))
    return path


def test_report_of_known_runs(tmp_path):
    for seed in (0, 1):
        finished_run(tmp_path, "cartpole", "variance", seed, [9.0] * 50 + [100.0 + 20 * seed] * 100)
        finished_run(tmp_path, "cartpole", "deterministic", seed, [9.0] * 50 + [90.0] * 100)
    found = report.results(report.find(tmp_path))
    common = {"published": None, "n": 2, "scale": "150 episodes", "commit": "abc", "seeds": [0, 1]}
    metric = "final score, mean of the last 100 evaluation episodes"
    script = "python scripts/rl.py -m env=cartpole policy={} 'seed=range(2)' schedule.episodes=150 schedule.lr={}"
    fast, slow = script.format("variance", 0.001), script.format("deterministic", 0.0003)
    spread = 20 / math.sqrt(2)
    assert found == [
        {"row": "cartpole, deterministic", "metric": metric, "mean": 90.0, "std": 0.0,
         "values": [90.0, 90.0], "command": slow, **common},
        {"row": "cartpole, variance", "metric": metric, "mean": 110.0, "std": pytest.approx(spread),
         "values": [100.0, 120.0], "command": fast, **common},
        {"row": "cartpole, variance - deterministic", "metric": "difference of final scores, mean of the last 100 "
         "evaluation episodes", "mean": 20.0, "std": pytest.approx(spread),
         "values": [10.0, 30.0], "command": f"{fast} && {slow}", **common},
    ]  # fmt: skip
    (axis,) = report.figure(report.find(tmp_path)).axes
    assert [line.get_label() for line in axis.lines] == ["deterministic (2 seeds)", "variance network (2 seeds)"]
    assert axis.lines[1].get_ydata()[-1] == 110.0 and len(axis.collections) == 2 and axis.get_title() == "CartPole-v0"


def test_the_command_of_a_row_has_all_that_is_not_usual(tmp_path):
    changes = {"reinforce.gamma": 0.5, "policy.hidden": 8, "env.id": "MountainCar-v0", "reinforce.baseline": "null"}
    finished_run(tmp_path, "cartpole", "variance", 3, [9.0] * 150, **changes)
    (row,) = report.results(report.find(tmp_path))
    words = row["command"].split()
    assert {f"{key}={value}" for key, value in changes.items()} <= set(words)
    overrides = [word.strip("'") for word in words[3:]]
    (again,) = grid(overrides)
    assert digest(again) == digest(saved_config(report.find(tmp_path)[0], "", RL))
    (axis,) = report.figure(report.find(tmp_path)).axes
    assert axis.get_title() == "MountainCar-v0, as env=cartpole"


def test_report_refuses_what_it_must_not_average(tmp_path):
    one = finished_run(tmp_path, "cartpole", "variance", 0, [9.0] * 150)
    two = finished_run(tmp_path, "cartpole", "variance", 1, [9.0] * 150, **{"schedule.lr": 0.5})
    with pytest.raises(ConfigError, match=r"no other seed of the same run: schedule.lr=0.5 \(the run has 0.001\)"):
        report.results([one, two])
    with pytest.raises(ConfigError, match="holds no finished run"):
        report.figure([tmp_path])
    with pytest.raises(ConfigError, match="there is no finished run"):
        report.figure([])


def test_the_command_of_a_policy_with_a_name_of_its_own(tmp_path):
    changes = {"policy.name": "mine", "schedule.lr": 0.002, "policy.hidden": 8}
    finished_run(tmp_path, "cartpole", "variance", 3, [9.0] * 150, **changes)
    (row,) = report.results(report.find(tmp_path))
    (again,) = grid([word.strip("'") for word in row["command"].split()[3:]])
    assert row["row"] == "cartpole, mine"
    assert digest(again) == digest(saved_config(report.find(tmp_path)[0], "", RL))


def test_a_damaged_history_is_read_from_the_checkpoint(tmp_path):
    cfg = tiny(tmp_path)
    run(cfg)
    folder = folder_of(cfg)
    history, wanted = folder / "history.jsonl", report.results([folder])
    whole = history.read_text()
    for damaged in ("", whole[: len(whole) // 2], whole[: whole.rindex("{")], None):
        history.write_text(damaged) if damaged is not None else history.unlink()
        assert report.results([folder]) == wanted
    torch.save(checkpoint.load(folder) | {"history": []}, folder / checkpoint.NAME)
    with pytest.raises(ConfigError, match="has scores of 0 of 12 episodes: delete it and run it again"):
        report.results([folder])


def test_a_sweep_over_folders_draws_a_figure_in_each(tmp_path):
    places = [tmp_path / "a", tmp_path / "b"]
    configs = [tiny(place, "schedule.episodes=2") for place in places]
    for cfg in configs:
        run(cfg)
    rl.sweep(configs)
    assert all((place / "figure6.png").exists() for place in places)


def test_files_that_cannot_be_written_are_said(tmp_path, capsys):
    cfg = tiny(tmp_path, "schedule.episodes=2")
    run(cfg)
    (tmp_path / "figure6.png").mkdir()
    with pytest.raises(SystemExit) as caught:
        rl.command_line(
            [
                "-m",
                f"out_dir={tmp_path}",
                "schedule.episodes=2",
                "env.max_steps=20",
                "policy.hidden=16",
                "checkpoint_every=5",
            ]
        )
    message = capsys.readouterr().err
    assert caught.value.code == 4 and message.count("\n") == 1 and "figure6.png" in message


def test_smoothing():
    np.testing.assert_allclose(report.smoothed(np.array([1.0, 3.0, 5.0, 7.0]), 2), [1.0, 2.0, 4.0, 6.0])


def test_a_gif_of_a_policy(tmp_path):
    pytest.importorskip("pygame", reason="pip install 'varnet[rl]'")
    from PIL import Image

    cfg = tiny(tmp_path, "schedule.episodes=2", "env.max_steps=12")
    run(cfg)
    path, score = render.gif(folder_of(cfg))
    with Image.open(path) as image:
        assert 1 < image.n_frames <= math.ceil(score / 2)  # equal frames are joined
    with pytest.raises(ConfigError, match=r"render=.* is not a folder"):
        render.gif(tmp_path / "nowhere")
