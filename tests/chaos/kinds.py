"""What may happen to a run. A kind of fault is a function (world, random) -> what was done; it goes into KINDS."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from tests import failing_files
from tests.chaos.world import World, quiet_for_good, silent
from varnet.base.nested import flat
from varnet.errors import CheckpointError, ConfigError, DataError, Stopped
from varnet.runs.composing import composed
from varnet.runs.folder import folder_of
from varnet.runs.identity import plain
from varnet.runs.life import attempt
from varnet.runs.opening import open_run
from varnet.runs.overrides import explain
from varnet.runs.schema import check
from varnet.runs.training import TRAINING
from varnet.train import checkpoint

SENTENCES = (ConfigError, CheckpointError, DataError, Stopped)  # what a command says in a line


class Done(NamedTuple):
    """One fault, and what came of it."""

    kind: str  # kills, faults, flips or inputs
    what: str
    times: int = 1
    lost: str | None = None  # a run that did not come to the same numbers, or to none
    let_in: str | None = None  # damage that was taken for good, or a traceback in place of a sentence


def kills(world: World, rng: random.Random) -> Done:
    """SIGKILL at any time, a few times; then the same command."""
    cfg, times = world.config(), rng.randint(1, 3)
    for _ in range(times):
        child = os.fork()
        if child == 0:
            _run_and_exit(world, cfg)
        time.sleep(rng.uniform(0, 1.2 * world.seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return _compared(world, cfg, Done("kills", f"{times} kills", times))


def _run_and_exit(world: World, cfg: DictConfig) -> None:
    try:
        quiet_for_good()
        world.finish(cfg)
    finally:
        os._exit(0)


def faults(world: World, rng: random.Random) -> Done:
    """An operation of the file system fails, once or for good, at any moment of a run that begins or goes on."""
    cfg = world.config() if rng.random() < 0.5 else world.copy(world.half)
    operation, first, error = rng.choice(failing_files.OPERATIONS), rng.randrange(40), rng.choice(failing_files.ERRORS)
    good = rng.random() < 0.5
    always = failing_files.for_good(operation, first, error)
    once = lambda name, number: error if (name, number) == (operation, first) else None  # noqa: E731
    done = Done("faults", f"{operation} {first} {os.strerror(error)}{' for good' if good else ''}")
    try:
        with failing_files.refusing(folder_of(cfg), always if good else once), silent():
            attempt(TRAINING, cfg)
    except Stopped as stopped:
        if not good:
            return done._replace(lost=f"a fault that passes ended the run: {stopped}")
    except Exception as error:
        return done._replace(let_in=f"{type(error).__name__}: {error}")
    return _compared(world, cfg, done)


FILES = (
    "checkpoint.pt", "checkpoint.previous.pt", "metrics.json", "history.jsonl", ".hydra/config.yaml", "checksums.json",
)  # fmt: skip


def flips(world: World, rng: random.Random) -> Done:
    """A file of a run that has ended, or goes on, is damaged: it is opened, and the same command started."""
    base = world.whole if rng.random() < 0.5 else world.half
    cfg = world.copy(base)
    path = folder_of(cfg) / rng.choice([name for name in FILES if (base / name).exists()])
    done = Done("flips", f"{path.relative_to(folder_of(cfg))}: {_damaged(path, rng)}")
    if base == world.whole and (let_in := _looked_at(world, folder_of(cfg))):
        return done._replace(let_in=let_in)
    return _compared(world, cfg, done)


def _damaged(path: Path, rng: random.Random) -> str:
    content = bytearray(path.read_bytes())
    place, how = rng.randrange(len(content)), rng.choice(("bit", "cut", "zeros", "line"))
    if how == "bit":
        content[place] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del content[place:]
    elif how == "zeros":
        content[place : place + 64] = bytes(len(content[place : place + 64]))
    else:
        content[place:place] = b"\n"
    path.write_bytes(content)
    return f"{how} at {place}"


def _looked_at(world: World, folder: Path) -> str | None:
    """What was taken for good when the run was opened."""
    try:
        with silent():
            found = open_run(folder).model.state_dict()
    except SENTENCES:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    own = checkpoint.read(world.whole / checkpoint.NAME)["model"]
    return None if all(torch.equal(own[key], value) for key, value in found.items()) else "other weights were opened"


VALUES = (
    "-1", "0", "1", "7", "0.5", "1e30", "nan", "inf", "null", "true", "text", "''", "[]", "[1]", "[[1]]", "{}",
    "{a: 1}", "[-1,null]", "${.}", "${nope}", "9223372036854775808", "1e400", "'[b]'", "'$x$'", "a=b", "2020-01-01",
    "\\", "'", "[",
)  # fmt: skip


def inputs(_: World, rng: random.Random) -> Done:
    """A command line of train.py with values of all kinds: checked, or refused in one line."""
    keys = [*flat(plain(composed())), "model", "param", "prior", "dataset", "schedule", "experiment", "nope", "a.b"]
    line = [f"{rng.choice(('', '', '', '+', '++', '~'))}{rng.choice(keys)}={rng.choice(VALUES)}" for _ in range(2)]
    done = Done("inputs", " ".join(line))
    try:
        check(composed(*line))
    except (ConfigError, HydraException, OmegaConfBaseException, ValueError) as error:
        said = str(error) if isinstance(error, ConfigError) else explain(error, line)
        return done if said and "\n" not in said else done._replace(let_in=f"not a line: {said!r}")
    except Exception as error:
        return done._replace(let_in=f"{type(error).__name__}: {error}")
    return done


def _compared(world: World, cfg: DictConfig, done: Done) -> Done:
    """The same command again, to its end; or a refusal in a sentence, where a file was damaged."""
    try:
        differs = world.differs(cfg, world.finish(cfg))
        return done._replace(lost=differs)
    except SENTENCES as error:
        return done if done.kind == "flips" else done._replace(lost=str(error))
    except Exception as error:
        return done._replace(let_in=f"{type(error).__name__}: {error}")
    finally:
        world.clear(cfg)


KINDS: dict[Callable[[World, random.Random], Done], int] = {kills: 1, faults: 3, flips: 6, inputs: 20}  # and how often
