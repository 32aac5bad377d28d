"""The memory format: by rule for small networks, by a measurement for large ones, and kept by a run that goes on."""

import contextlib
import itertools

import pytest
import torch

from tests.composing import composed, tiny
from tests.train.stopping import interrupted_at, stop
from varnet.cli.train import run
from varnet.errors import Interrupted
from varnet.nn.networks import build
from varnet.runs.folder import folder_of
from varnet.runs.resuming import resumed
from varnet.train import checkpoint, placing, trainer

CPU = torch.device("cpu")


def clock(channels_last: float, usual: float):
    """Time as it passes when a step takes that long in each format; the first one of each, to warm up, far longer."""
    steps = [s for one in (channels_last, usual) for s in (100.0, *[one] * placing.STEPS)]
    times = itertools.accumulate(t for step in steps for t in (0.0, step))
    return lambda: next(times)


@pytest.mark.parametrize(
    ("channels_last", "usual", "by_rule", "expected"),
    [(1.0, 2.0, False, True), (2.0, 1.0, True, False), (1.0, 1.05, False, False), (1.05, 1.0, True, True)],
)
def test_the_clock_decides_where_it_is_clear(channels_last, usual, by_rule, expected):
    model, x = build("lenet5", (1, 28, 28), 10, width=0.1), torch.rand(4, 1, 28, 28)
    before, random = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    how = (by_rule, contextlib.nullcontext, clock(channels_last, usual))
    assert placing.measured(model, x, *how) is expected
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_what_is_measured():
    large = build("vgg", (3, 32, 32), 10, width=0.5)
    assert placing.unsure(large, composed("model=vgg"), CPU)
    assert not placing.unsure(large, composed("model=vgg", "channels_last=true"), CPU)
    assert not placing.unsure(build("vgg", (3, 32, 32), 10, width=0.25), composed("model=vgg"), CPU)


def test_a_run_that_goes_on_keeps_its_format(tmp_path, monkeypatch, unpictured):
    monkeypatch.setattr(placing, "UNSURE", 0)
    monkeypatch.setattr(trainer, "measured", lambda _model, _x, by_rule, _autocast: not by_rule)
    whole, cut = (tiny(tmp_path / name, "schedule.epochs=3") for name in ("whole", "cut"))
    run(whole)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupted_at(3, patch, stop)
        run(cut)
    monkeypatch.setattr(trainer, "measured", lambda *_: pytest.fail("measured again"))
    run(resumed(folder_of(cut), []), folder_of(cut))
    states = [checkpoint.load(folder_of(cfg)) for cfg in (whole, cut)]
    assert [state["channels_last"] for state in states] == [False, False]  # the rule says True for LeNet-5
    assert all(torch.equal(value, states[1]["model"][key]) for key, value in states[0]["model"].items())
