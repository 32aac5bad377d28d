"""The life of a run, of train.py and of scripts/rl.py alike: a configuration -> a folder and its metrics."""

import contextlib
import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from omegaconf import DictConfig

from varnet.base import device, distributed
from varnet.base.files import write_json
from varnet.base.invocation import command
from varnet.base.lock import check_held, locked
from varnet.errors import CheckpointError, ConfigError, DataError, Diverged, FolderLost, Interrupted, RankLost, Stopped
from varnet.runs.folder import METRICS, finished, folder_of, opened
from varnet.runs.identity import identity
from varnet.runs.provenance import provenance
from varnet.runs.resuming import check_fits
from varnet.train import checkpoint

log = logging.getLogger("varnet")


class Trainer(Protocol):
    """What is trained, and by what means."""

    @property
    def progress(self) -> str: ...  # how far it is: "epoch 3, step 900"

    def load_state_dict(self, state: dict) -> None: ...

    def fit(self) -> object: ...

    def metrics(self) -> dict: ...

    def close(self) -> None: ...


class Kind(NamedTuple):
    """What tells the runs of one script from those of another."""

    command: str  # of varnet
    script: str  # that does the same in a checkout
    check: Callable[[DictConfig], None]
    made: Callable[[DictConfig, torch.device, Path], "Trainer"]
    needed: frozenset[str]  # what the metrics of a finished run have


def run(kind: Kind, cfg: DictConfig, folder: Path | None = None) -> dict:
    """Configuration -> metrics. A finished run is read, an interrupted one continued, a new one begun."""
    kind.check(cfg)
    where = device.find(cfg.device)
    folder = folder or folder_of(cfg)
    with distributed.joined(where):
        if metrics := distributed.from_first(lambda: _ended(folder, kind)):
            log.info("%s is finished already; another seed=, or name=, gives another run", folder)
            return metrics
        if warning := device.caution(where, cfg.get("precision", "fp32")):
            log.warning(warning)
        device.tune_cpu(cfg.threads)
        torch.use_deterministic_algorithms(cfg.get("deterministic", False))
        torch.manual_seed(cfg.seed)
        trainer = kind.made(cfg, where, folder)
        with contextlib.ExitStack() as stack:
            distributed.from_first(lambda: str(stack.enter_context(opened(folder, cfg))))
            stack.callback(trainer.close)
            return _lived(trainer, cfg, folder)


def _ended(folder: Path, kind: Kind) -> dict | None:
    """The metrics of a finished run, its last checkpoint in its place."""
    metrics = finished(folder, kind.needed)
    if metrics and checkpoint.pending(folder):
        with contextlib.suppress(OSError, ConfigError), locked(folder):  # it may be to look at only
            checkpoint.complete(folder)
    return metrics


def _lived(trainer: Trainer, cfg: DictConfig, folder: Path) -> dict:
    distributed.from_first(lambda: checkpoint.complete(folder))
    if distributed.from_first(lambda: checkpoint.exists(folder)):
        state = distributed.from_first(lambda: checkpoint.load(folder, put_aside=True))
        check_fits(identity(cfg), state["config"], folder)
        trainer.load_state_dict(state)
        log.info("%s: going on after %s", folder, trainer.progress)
    about = provenance(cfg)  # now: the checkout may change while the run goes on
    trainer.fit()
    if distributed.rank() > 0:
        return {}
    metrics = trainer.metrics()
    about["versions"] |= metrics.pop("versions", {})
    metrics |= about
    check_held(folder)
    write_json(folder / METRICS, metrics)
    return metrics


def attempt(kind: Kind, cfg: DictConfig, folder: Path | None = None) -> dict:
    """run, with every foreseeable failure said in one sentence."""
    try:
        kind.check(cfg)
        folder = folder or folder_of(cfg)
        return run(kind, cfg, folder)
    except (ConfigError, DataError, CheckpointError) as error:
        raise Stopped(error, 2) from error
    except Diverged as error:
        raise Stopped(f"{error} ({folder})", 3) from error
    except Interrupted as error:
        raise Stopped(f"{error}; saved: go on with {command(kind.command)} resume={folder}", error.exit_code) from error
    except KeyboardInterrupt as error:
        raise Stopped(f"stopped; go on with {command(kind.command)} resume={folder}", 130) from error
    except FolderLost as error:
        raise Stopped(error, 4) from error
    except RankLost as error:
        raise Stopped(f"{error}; go on with the same command ({folder})", 5) from error
    except OSError as error:
        raise Stopped(unwritten(error, folder), 4) from error


def unwritten(error: OSError, folder: Path) -> str:
    """Say what the file system refused."""
    remedy = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "put it right"
    place = error.filename or folder
    return f"{error.strerror or error} ({place}): what was written before is safe; {remedy} and start again"
