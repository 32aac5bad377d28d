"""What one step does to means, noise and log alpha, with every optimizer that the schedule offers."""

import json

import pytest
import torch

from tests.composing import composed, tiny
from tests.train.stopping import interrupted_at, stop
from varnet.cli.train import objective, run
from varnet.errors import ConfigError, Interrupted
from varnet.nn.networks import build
from varnet.runs.folder import folder_of
from varnet.runs.resuming import resumed
from varnet.runs.schema import check
from varnet.train import checkpoint
from varnet.train.optimizer import make_optimizer
from varnet.train.schedule import Schedule

SIZE, LR = 50, 0.1


def stepped(*overrides: str, gradient: float = 0.0, rounds: int = 1) -> tuple[dict, dict]:
    """Parameters before and after steps with the same gradient everywhere: as if the loss were N times a mean."""
    model = build("lenet5", (1, 28, 28), 10, width=0.1, param="layer")
    cfg = composed("schedule.lr=0.1", *overrides)
    optimizer = make_optimizer(model, cfg, SIZE)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for _ in range(rounds):
        for group in optimizer.param_groups:
            group["lr"] = LR * group["lr_mult"]
        for p in model.parameters():
            p.grad = torch.full_like(p, SIZE * gradient)
        optimizer.step()
    return before, {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_decay_is_of_the_layers_without_noise_alone(kind):
    before, after = stepped(f"schedule.optimizer={kind}", "schedule.weight_decay=0.5", "schedule.momentum=0")
    for name in before:
        plain = name in ("conv1.weight", "conv2.weight", "dense2.weight")
        torch.testing.assert_close(after[name], before[name] * (1 - LR * 0.5 if plain else 1.0))


def test_the_rate_of_sgd_is_that_of_the_mean_and_log_alpha_keeps_adam():
    before, after = stepped(
        "schedule.optimizer=sgd", "schedule.momentum=0", "schedule.log_alpha.lr_mult=0.05", gradient=0.3
    )
    torch.testing.assert_close(after["dense1.mu"], before["dense1.mu"] - LR * 0.3)
    torch.testing.assert_close(after["dense1.log_alpha"], before["dense1.log_alpha"] - 0.05 * LR)


def test_momentum_of_nesterov():
    before, after = stepped("schedule.optimizer=sgd", gradient=1.0, rounds=2)  # 0.9 where nothing is said
    velocities = [1.0, 1.9]
    moved = LR * sum(1.0 + 0.9 * v for v in velocities)
    torch.testing.assert_close(after["conv1.weight"], before["conv1.weight"] - moved)


def test_beta1_of_adam():
    model = build("lenet5", (1, 28, 28), 10, width=0.1, param="layer")
    for given, expected in (("null", 0.9), ("0.95", 0.95)):
        groups = make_optimizer(model, composed(f"schedule.beta1={given}"), SIZE).param_groups
        assert {group["betas"][0] for group in groups} == {expected}


def test_the_rate_falls_no_lower_than_its_floor():
    schedule = Schedule(steps_per_epoch=10, epochs=2, lr=1e-3, floor=1e-5)
    assert schedule.lr_at(0) == 1e-3 and schedule.lr_at(19) == pytest.approx(5e-5) and schedule.lr_at(20) == 1e-5


@pytest.mark.parametrize(
    ("key", "value"),
    [("optimizer", "adamw"), ("momentum", 1.0), ("weight_decay", -1), ("beta1", 1), ("floor", -1e-5)],
)
def test_wrong_values_name_the_key(key, value):
    with pytest.raises(ConfigError) as caught:
        check(composed(f"schedule.{key}={value}"))
    assert caught.value.key == f"schedule.{key}"


def test_two_optimizers_resume_bit_for_bit(tmp_path, monkeypatch, unpictured):
    """With a validation split, whose accuracies stand beside those of the test set."""
    own = (
        "schedule=fast",
        "schedule.optimizer=sgd",
        "schedule.epochs=3",
        "schedule.batch_size=20",
        "dataset.validation_size=20",
    )
    hidden = ("eval.test=end", "eval.final_elbo_samples=5")  # change nothing in what a run is
    whole, cut = tiny(tmp_path / "whole", *own), tiny(tmp_path / "cut", *own, *hidden)
    assert folder_of(whole).name == folder_of(cut).name
    metrics = run(whole)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupted_at(3, patch, stop)
        run(cut)
    resumed_metrics = run(resumed(folder_of(cut), []), folder_of(cut))
    assert resumed_metrics["acc_k_val"] == metrics["acc_k_val"] == objective(metrics)
    assert resumed_metrics["acc_k"] == metrics["acc_k"]
    assert (resumed_metrics["elbo_samples"], "elbo_samples" in metrics) == (5, False)
    states = [checkpoint.load(folder_of(cfg))["model"] for cfg in (whole, cut)]
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    rows, kept = (
        [json.loads(line) for line in (folder_of(cfg) / "history.jsonl").read_text().splitlines()]
        for cfg in (whole, cut)
    )
    assert all("acc_k_val" in row for row in kept) and ["acc_k" in row for row in kept] == [False, False, True]
    assert all(
        {"acc_det", "acc_k", "acc_det_val", "acc_1_val", "nll_k_val", "acc_zero_mean_k_val"} <= row.keys()
        for row in rows
    )
