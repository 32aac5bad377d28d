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
from varnet.base.files import as_json, content, write_atomically
from varnet.base.invocation import command
from varnet.base.lock import check_held, locked
from varnet.errors import CheckpointError, ConfigError, DataError, Diverged, FolderLost, Interrupted, RankLost, Stopped
from varnet.runs import checksums
from varnet.runs.folder import CONFIG, METRICS, finished, folder_of, keep_config, opened
from varnet.runs.identity import identity
from varnet.runs.past import mend
from varnet.runs.provenance import provenance
from varnet.runs.resuming import check_fits
from varnet.train import checkpoint
from varnet.train.history import HISTORY

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
    with distributed.joined(where, cfg.get("patience_minutes")):
        if metrics := distributed.from_first(lambda: _ended(folder, kind, cfg)):
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


def _ended(folder: Path, kind: Kind, cfg: DictConfig) -> dict | None:
    """The metrics of a finished run, its last checkpoint in its place and its other files mended."""
    metrics = finished(folder, kind.needed)
    damaged = metrics and [name for name in (CONFIG, HISTORY) if not _intact(folder, name)]
    if metrics and (damaged or checkpoint.pending(folder)):
        with contextlib.suppress(OSError, ConfigError, CheckpointError), locked(folder):  # it may be to look at only
            checkpoint.complete(folder)
            if CONFIG in damaged:
                keep_config(folder, cfg)
            if HISTORY in damaged:
                mend(folder)
    return metrics


def _intact(folder: Path, name: str) -> bool:
    """Whether a file is as it was when the run ended; also where that was not noted."""
    try:
        return checksums.intact(folder, name, content(folder / name))
    except OSError:
        return not checksums.sealed(folder, name)


def _lived(trainer: Trainer, cfg: DictConfig, folder: Path) -> dict:
    distributed.from_first(lambda: checkpoint.complete(folder))
    if distributed.from_first(lambda: checkpoint.exists(folder)):
        state = distributed.from_first(lambda: checkpoint.load(folder, put_aside=True))
        check_fits(identity(cfg), state["config"], folder)
        with checkpoint.taken(folder):
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
    text = as_json(metrics)
    checksums.seal(folder, {METRICS: text, HISTORY: content(folder / HISTORY)})
    write_atomically(folder / METRICS, text)
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
