"""What is measured: cases in turn, on networks that are small here; the rows that the command prints and writes."""

import itertools
import json
import math
from argparse import Namespace

import pytest
import torch

from tests.statistics_helper import assert_mean, assert_variance
from varnet import kl, variational
from varnet.bench import attack, evaluation, layers, step, timing, wide
from varnet.cli import bench
from varnet.data import load
from varnet.nn.networks import build

ONCE = Namespace(repeats=1, threads=1, figure=None)


def test_cases_are_measured_in_turn_and_their_median_is_taken(monkeypatch):
    clock, called = {"now": 0.0}, []
    lasting = {"a": itertools.chain([9.0], [1.0, 7.0, 2.0]), "b": itertools.chain([9.0], [5.0, 3.0, 4.0])}
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock["now"])

    def case(name: str) -> None:
        called.append(name)
        clock["now"] += next(lasting[name])

    cases = {name: lambda name=name: case(name) for name in "ab"}
    assert timing.interleaved(cases, repeats=3, warmup=1) == {"a": 2.0, "b": 4.0}
    assert "".join(called) == "ab" + "ababab"


def assert_rows(rows: list[dict]) -> None:
    assert rows and all(row.keys() == rows[0].keys() for row in rows)
    assert all(math.isfinite(row["ratio"]) and row["ratio"] > 0 for row in rows)


def test_the_step_of_the_loop_against_the_bare_one_from_the_command(monkeypatch, tmp_path, capsys):
    tiny = ("dataset=digits", "dataset.train_size=40", "schedule.batch_size=20", "model.width=0.05")
    monkeypatch.setattr(step, "CASES", {"tiny": tiny})
    monkeypatch.setattr(step, "STEPS", 1)
    bench.main(["step", "--repeats", "1", "--only=tiny", f"--json={tmp_path / 'step.json'}"])
    written = json.loads((tmp_path / "step.json").read_text())
    assert_rows(written["rows"])
    assert written["suite"] == "step" and "tiny" in capsys.readouterr().out


def test_the_step_of_a_wide_network_against_the_machine(monkeypatch, tmp_path):
    for key, value in {"WIDTHS": (0.02,), "STEPS": 1, "SIZE": 16}.items():
        monkeypatch.setattr(wide, key, value)
    bench.main(["step", "--repeats=1", "--only=width 0.02", "--batch=2", f"--json={tmp_path / 'step.json'}"])
    (row,) = json.loads((tmp_path / "step.json").read_text())["random layers"]
    assert row["network"].startswith("VGG-like, width 0.02, batch 2, fp32, ") and row["target"] == 1.16
    assert all(value > 0 and math.isfinite(value) for key, value in row.items() if key != "network")


def test_operations_of_a_step_by_hand():
    conv, dense = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4 * 30 * 30, 5)
    net = torch.nn.Sequential(conv, torch.nn.Flatten(), dense)
    data = load("digits", size=32, channels=3)
    by_hand = [2 * 4 * 3 * 9 * 30 * 30, 2 * 3600 * 5]
    assert wide.operations(net, data) == 3 * sum(by_hand)
    assert wide.operations(variational(net, "2"), data) == 3 * (by_hand[0] + 2 * by_hand[1])


def test_a_case_that_is_not_there_is_refused(capsys):
    assert bench.main(["step", "--only=resnet"]) == 2
    assert "only=resnet is in the name of no case: choose from LeNet-5" in capsys.readouterr().err


def test_steps_of_an_attack(monkeypatch):
    monkeypatch.setattr(attack, "CASES", {"tiny": ("lenet300", (1, 8, 8), ["dense2"], {"width": 0.1}, 2, 4)})
    monkeypatch.setattr(attack, "STEPS", 1)
    rows = attack.run(ONCE)
    assert_rows(rows)
    assert [row["samples"] for row in rows] == [10, 50]


def test_the_baseline_is_the_same_network_with_the_textbooks_layers():
    net = build("lenet5", (1, 28, 28), 10, width=0.1, layers="none").eval()
    peer, x = layers.textbook(net), torch.rand(3, 1, 28, 28)
    wrapped = [module for module in peer if isinstance(module, layers.TextbookLayer)]
    assert len(wrapped) == 4
    for module in wrapped:
        torch.nn.init.constant_(module.log_alpha, -60.0)  # next to no noise
    torch.testing.assert_close(peer(x), net(x))


def test_the_textbooks_layer_has_the_moments_and_the_kl_of_ours():
    plain, x = torch.nn.Linear(6, 3), torch.rand(6)
    ours = variational(torch.nn.Sequential(plain), param="layer", log_alpha=-5.0)
    peer = layers.TextbookLayer(plain)
    with torch.no_grad():
        samples = peer(x.expand(4000, 6))
        assert_mean(samples, plain(x))
        assert_variance(samples, math.exp(-5) * (plain.weight.square() @ x.square()))
        torch.testing.assert_close(peer.kl(), kl(ours))


def test_the_plain_loop_averages_the_softmax_of_whole_passes():
    net = build("lenet300", (1, 8, 8), 10, width=0.1, layers="none")
    data = evaluation.batches((1, 8, 8), 7, channels_last=False)
    expected = torch.cat([net(x).softmax(1) for x, _ in data])
    torch.testing.assert_close(evaluation.plain_loop(net, data, 3), expected)


@pytest.mark.parametrize("arguments", [["nothing"], ["step", "--repeats=0"], ["step", "--json=/nowhere/x.json"]])
def test_wrong_arguments_end_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        bench.main(arguments)
    assert caught.value.code == 2 and "error: " in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("suite", bench.SUITES)
def test_every_suite_runs(suite, capsys):
    bench.main([suite, "--repeats", "1"])
    assert suite in capsys.readouterr().out
