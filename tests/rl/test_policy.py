"""Parameter noise in reinforcement learning: the gradient of the policy, and the noise of an episode."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import varnet
from tests.rl.small_runs import POLICIES, composed, tiny, trainer_of
from tests.statistics_helper import assert_mean
from varnet.nn.layers import layers_of
from varnet.rl import policy as policies
from varnet.rl import reinforce
from varnet.rl.episode import Episode, choose, play
from varnet.rl.reinforce import Baseline
from varnet.rl.trainer import EVALUATION, TRAINING

pytest.importorskip("gymnasium", reason="pip install 'varnet[rl]'")
PARAMS = ("deterministic", "additive", "zero_mean")


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
        assert list(layers_of(policy)) == ["dense2"]
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


def test_an_episode_longer_than_any_before():
    baseline = Baseline(2, 0.5)
    assert baseline.advantages(np.array([1.0, 2.0])).tolist() == [1, 2]
    assert baseline.advantages(np.array([1.0, 2.0, 3.0])).tolist() == [0, 0, 3]
    assert baseline.mean.tolist() == [1, 2, 1.5]
