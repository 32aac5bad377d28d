"""Checkpoints that are whole and wrong: one sentence each, whatever part has another value, type or shape."""

import copy
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.composing import tiny
from varnet.errors import CheckpointError, ConfigError, DataError, Stopped
from varnet.runs.folder import METRICS, folder_of
from varnet.runs.life import attempt
from varnet.runs.training import TRAINING, made
from varnet.train import checkpoint

STRANGE = ("text", None, [], {}, -1, math.nan, 10**30, torch.zeros(2, 3), True)
REFUSED = (CheckpointError, ConfigError, DataError)


@pytest.fixture(scope="module")
def state(trained) -> dict:
    return checkpoint.load(trained)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory, trained):
    """One that takes over the state of the run, and trains on."""
    return made(tiny(tmp_path_factory.mktemp("restored")), torch.device("cpu"), trained)


def leaves(value: object, place: tuple = ()) -> Iterator[tuple]:
    """Places of all parts of a state, groups and lists too."""
    if place:
        yield place
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from leaves(one, (*place, key))


def changed(state: dict, place: tuple, value: object) -> dict:
    """The state with another value at a place; KeyError as value: without it."""
    state = copied = copy.copy(state)
    for key in place[:-1]:
        copied[key] = copied = copy.copy(copied[key])
    if value is KeyError:
        del copied[place[-1]]
    else:
        copied[place[-1]] = value
    return state


def go_on(trainer, state: dict) -> None:
    """What a run does with a checkpoint: take it over and train the next batch."""
    with checkpoint.taken(trainer.folder):
        trainer.load_state_dict(state)
    x, y = next(iter(trainer._loader("train", 10)))
    next(iter(trainer.loader), None)
    trainer.loader._done = 1
    trainer.train_step(x, y)
    float(trainer.seconds), trainer.epoch + 1, trainer.sums.sum()


def test_a_wrong_part_is_one_sentence(trainer, state):
    """Or it does no harm: the run goes on with it."""
    parts = [place for place in leaves(state) if place[0] != "config"]  # which is compared as a whole
    assert len(parts) > 100
    refused = 0
    for number, place in enumerate(parts):
        for value in (STRANGE[number % len(STRANGE)], STRANGE[(4 * number + 1) % len(STRANGE)], KeyError):
            try:
                go_on(trainer, changed(state, place, value))
            except REFUSED as error:
                assert "\n" not in str(error)
                refused += 1
    assert refused > 2 * len(parts)
    go_on(trainer, state)


def test_no_part_may_have_another_shape(trainer, state):
    """A fused optimizer would run beyond the end of a moment that is too small."""
    tensors = [(place, value) for place in leaves(state) if isinstance(value := at(state, place), Tensor)]
    assert len(tensors) > 20
    for place, value in tensors:
        if place[0] == "history" or value.numel() == 1:
            continue
        for other in (value.flatten()[:-1], value.double() if value.is_floating_point() else value.float()):
            with pytest.raises(CheckpointError, match=r"is not one of such a run \(its .* (has shape|is no tensor)"):
                go_on(trainer, changed(state, place, other))


def at(state: object, place: tuple) -> object:
    for key in place:
        state = state[key]
    return state


WRONG = {
    "step as text": (("step",), "text", "its step is invalid: use a whole number"),
    "config a list": (("config",), [1], "its configuration is no group"),
    "rng missing": (("ranks", 0, "rng"), KeyError, "it has no rng"),
    "loader beyond the end": (("loader", "done"), 1000, "batch 1000 are not of 1 epochs of 2 batches"),
    "epoch beyond the end": (("epoch",), 7, "epoch 7, step 2 .* are not of 1 epochs"),
}


@pytest.mark.parametrize("place, value, message", WRONG.values(), ids=WRONG)
def test_the_command_says_what_is_wrong(tmp_path, trained, state, place, value, message):
    cfg = tiny(tmp_path)
    folder = Path(shutil.copytree(trained, folder_of(cfg)))
    (folder / METRICS).unlink()
    (folder / checkpoint.PREVIOUS).unlink(missing_ok=True)
    torch.save(changed(state, place, value), folder / checkpoint.NAME)
    with pytest.raises(Stopped, match=message) as error:
        attempt(TRAINING, cfg)
    assert error.value.code == 2 and "\n" not in str(error.value) and not (folder / METRICS).exists()
