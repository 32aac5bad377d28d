"""The folder of a run: where it is, what says that it is finished, who may write into it, what it was asked to do."""

import contextlib
import errno
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from varnet.base.files import remove_unfinished, write_atomically
from varnet.base.invocation import as_typed
from varnet.base.lock import locked
from varnet.errors import ConfigError
from varnet.runs import stored
from varnet.runs.identity import digest

CONFIG, METRICS = ".hydra/config.yaml", "metrics.json"
TRAIN, RL = "train.py", "scripts/rl.py"  # whose runs there are
TRAINED = frozenset({"acc_k"})  # what metrics.json of a finished run of train.py has
TARGETS = ("model.target", "dataset.target")  # keys whose values are code to import
Targets = Mapping[str, str | Collection[str]]  # import paths that the user names, by key


def folder_of(cfg: DictConfig) -> Path:
    return Path(cfg.out_dir) / str(cfg.name) / f"seed{cfg.seed}-{digest(cfg)}"


def finished(folder: Path, needed: frozenset[str] = TRAINED) -> dict | None:
    """The metrics of a finished run; a file that cannot be read is made anew from the checkpoint."""
    try:
        metrics = json.loads((folder / METRICS).read_text())
    except (OSError, ValueError):
        return None
    return metrics if isinstance(metrics, dict) and needed <= metrics.keys() else None


@contextlib.contextmanager
def opened(folder: Path, cfg: DictConfig) -> Iterator[Path]:
    """The folder of a run, with its configuration in it, for this process alone."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
            (folder / ".hydra").mkdir(exist_ok=True)
            if (folder / ".hydra").is_symlink():
                raise OSError(errno.ELOOP, ".hydra in it is a link")
            remove_unfinished(folder)
            if not (folder / CONFIG).exists():
                write_atomically(folder / CONFIG, OmegaConf.to_yaml(cfg, resolve=True))
        except OSError as error:
            raise ConfigError(
                f"cannot be used ({error.strerror}): use another folder", "out_dir", cfg.out_dir
            ) from error
        yield folder


def saved_config(
    folder: Path, key: str | None = "resume", script: str = TRAIN, targets: Targets | None = None
) -> DictConfig:
    """The configuration of an earlier run of a script, to go on with it or to open it.

    key      what the user gave the folder with, for messages
    targets  the import paths that the user names too: a folder alone, which may be a stranger's, names no code
    """
    cfg = stored_config(folder, key, script)
    for name in TARGETS:
        stored = OmegaConf.select(cfg, name)
        if stored is None:
            continue
        named = (targets or {}).get(name, ())
        if stored not in ((named,) if isinstance(named, str) else named):
            raise _wrong(
                folder, key,
                f"takes code from {name}={stored}, and a folder alone may name no code to import: if you trust it, "
                f"give {name}={stored} on the command line, too",
            )  # fmt: skip
        OmegaConf.update(cfg, name, stored)  # what was compared, whatever it was interpolated from
    return cfg


def stored_config(folder: Path, key: str | None = "resume", script: str = TRAIN) -> DictConfig:
    """The same to be read alone, as nothing is built from it: it may name any code."""
    if not folder.is_dir():
        raise _wrong(folder, key, "is not a folder: name the folder of a run, e.g. outputs/NAME/seed0-1234abcd")
    if not (folder / CONFIG).exists():
        raise _wrong(folder, key, f"holds no run ({CONFIG} is missing): name the folder of a run")
    try:
        cfg = stored.load(folder / CONFIG)
        assert isinstance(cfg, DictConfig) and "schedule" in cfg
    except stored.Refused as error:
        raise _wrong(
            folder, key, f"has a {CONFIG} that {error}: restore it, or open no folder of a stranger"
        ) from error
    except Exception as error:
        text = f"has a {CONFIG} that cannot be read: restore it or start the run anew"
        raise _wrong(folder, key, text) from error
    if (made_by := RL if "policy" in cfg else TRAIN) != script:
        raise _wrong(folder, key, as_typed(f"is a run of {made_by}: name the folder of a run of {script}"))
    return cfg


def _wrong(folder: Path, key: str | None, text: str) -> ConfigError:
    return ConfigError(text, key, folder) if key else ConfigError(f"{folder} {text}")
