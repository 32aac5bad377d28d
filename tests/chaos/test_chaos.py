"""Each kind of fault does no harm; harm would be counted and told."""

import random

import pytest
import torch

from tests.chaos import __main__ as command
from tests.chaos import kinds
from tests.chaos.kinds import KINDS, Done
from tests.chaos.world import World
from tests.conftest import no_pictures
from varnet.base import files
from varnet.runs.folder import folder_of
from varnet.train import checkpoint

SEEDS = {kinds.kills: range(1), kinds.faults: range(2), kinds.flips: range(4), kinds.inputs: range(8)}


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    with no_pictures():
        return World(tmp_path_factory.mktemp("chaos"))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # has threads, which a child does without
@pytest.mark.usefixtures("unpictured")
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_fault_does_no_harm(kind, world, monkeypatch):
    monkeypatch.setattr(files, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(world, "seconds", min(world.seconds, 0.3))
    for seed in SEEDS[kind]:
        done = kind(world, random.Random(seed))
        assert done.kind in command.COUNTED and (done.lost, done.let_in) == (None, None), done


def test_other_weights_numbers_and_epochs_are_noticed(world):
    cfg = world.copy(world.whole)
    folder = folder_of(cfg)
    assert world.differs(cfg, world.metrics) is None
    assert world.differs(cfg, world.metrics | {"elbo": 0.0}) == "the metrics are others"
    (folder / "history.jsonl").write_text("")
    assert world.differs(cfg, world.metrics) == "the history is another"
    state = checkpoint.read(folder / "checkpoint.pt")
    name = next(iter(state["model"]))
    state["model"][name] = state["model"][name] + 1
    torch.save(state, folder / "checkpoint.pt")
    assert world.differs(cfg, world.metrics) == f"{name} is another"


def test_the_command_tells_figures_and_harm(monkeypatch, capsys, world):
    done = iter([Done("kills", "2 kills", 2), Done("flips", "x: bit at 3", lost="the metrics are others")])
    monkeypatch.setattr(command, "World", lambda _: world)
    monkeypatch.setattr(command, "KINDS", {lambda *_: next(done): 2})
    monkeypatch.setattr("logging.disable", lambda: None)
    monkeypatch.setattr(files, "PAUSES", files.PAUSES)
    assert command.main(["minutes=1e-9", "seed=3"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["seed=3", "lost: flips: x: bit at 3: the metrics are others"]
    assert said[2] == "chaos: 2 kills, 0 faults, 1 flips, 0 inputs in 0.0 min; 1 lost; 0 let in"
