"""TensorBoard's events after kills: every step has one value, however the clock went."""

import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from tests.train.stopping import interrupted_at
from tests.train.test_trainer import small
from varnet.cli.train import run
from varnet.runs.folder import METRICS, folder_of
from varnet.train import events

pytestmark = pytest.mark.usefixtures("unpictured")


def steps(folder: Path) -> dict[str, list[int]]:
    """Tag -> its steps, as TensorBoard reads them."""
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [event.step for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def written(folder: Path, *numbers: int) -> None:
    """What a process logs that is killed after it."""
    writer = SummaryWriter(str(folder))
    for number in numbers:
        writer.add_scalar("a", float(number), number)
        writer.add_scalar("b", float(number), number)
    writer.add_scalar("final", 1.0, 0)
    writer.close()


@pytest.mark.parametrize("clock", [lambda i: 1e9 + i, lambda i: 1e9 - i, lambda i: 1e9], ids=["on", "back", "still"])
def test_each_step_has_one_value_after_many_kills(tmp_path, monkeypatch, clock):
    now = [0]
    monkeypatch.setattr(time, "time", lambda: clock(now[0]))
    for number, (kept, logged) in enumerate([(0, (1, 2, 3)), (2, (3, 4)), (2, (3, 4, 5, 6)), (6, (7,)), (6, (7, 8))]):
        now[0] = number
        events.keep(tmp_path, kept)
        written(tmp_path, *logged)
        assert steps(tmp_path) == {"a": [*range(1, max(logged) + 1)], "b": [*range(1, max(logged) + 1)], "final": [0]}
    assert len(list(tmp_path.iterdir())) == 2


def test_steps_that_were_there_twice_are_there_once(tmp_path):
    """As earlier versions left them."""
    for _ in range(3):
        written(tmp_path, 1, 2, 3)
    events.keep(tmp_path, 2)
    assert steps(tmp_path) == {"a": [1, 2], "b": [1, 2]}
    events.keep(tmp_path, 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [0, 4, 9, 60, -1])
def test_what_is_damaged_or_cut_off_is_left_out(tmp_path, place):
    written(tmp_path, 1, 2)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content[:-3] if place == -1 else content)
    events.keep(tmp_path, 2)
    found = steps(tmp_path)
    assert all(found[tag] in ([1], [2], [1, 2]) for tag in found) and "final" not in found


def killed(_):
    raise KeyError


@pytest.mark.parametrize("by_the_clock", [False, True])
def test_a_run_that_is_killed_again_and_again_logs_each_epoch_once(tmp_path, monkeypatch, by_the_clock):
    """By the clock, it is saved after the last batch of an epoch too, before the epoch is logged."""
    more = ["checkpoint_every=100", "checkpoint_minutes=1e-9"] if by_the_clock else ["checkpoint_every=2"]
    cfg = small(tmp_path, *more)
    for step in (3, 7):
        with monkeypatch.context() as patch, pytest.raises(KeyError):
            interrupted_at(step, patch, killed)
            run(cfg)
    run(cfg)
    (folder_of(cfg) / METRICS).unlink()  # the end is done again
    run(cfg)
    found = steps(folder_of(cfg))
    assert found["train/elbo"] == found["log_alpha/dense1"] == found["test/acc_k"] == [2, 4, 6, 8]
    assert all(len(set(numbers)) == len(numbers) for numbers in found.values()) and found["final/acc_k"] == [0]
