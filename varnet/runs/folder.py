"""The folder of a run: where it is, what says that it is finished, who may write into it, what it was asked to do."""

import contextlib
import errno
import functools
import logging
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from varnet.base.files import content, parsed, remove_unfinished, write_atomically
from varnet.base.invocation import as_typed
from varnet.base.lock import locked
from varnet.errors import ConfigError, one_line
from varnet.runs import checksums, stored
from varnet.runs.identity import digest

log = logging.getLogger("varnet")
CONFIG, METRICS = ".hydra/config.yaml", "metrics.json"
TRAIN, RL = "train.py", "scripts/rl.py"  # whose runs there are
TRAINED = frozenset({"elbo"})  # what metrics.json of a finished run of train.py has
NUMBERS = frozenset({"elbo", "data_term", "kl", "seed", "epochs", "seconds", "score", "window", "episodes", "steps"})
TARGETS = ("model.target", "dataset.target", "likelihood.target")  # keys whose values are code to import
Targets = Mapping[str, str | Collection[str]]  # import paths that the user names, by key


def folder_of(cfg: DictConfig) -> Path:
    return Path(cfg.out_dir) / str(cfg.name) / f"seed{cfg.seed}-{digest(cfg)}"


def finished(folder: Path, needed: frozenset[str] = TRAINED) -> dict | None:
    """The metrics of a finished run; a file that is damaged is made anew from the checkpoint, so it is none."""
    try:
        text = content(folder / METRICS)
        if not checksums.intact(folder, METRICS, text):
            raise ValueError(f"its checksum in {checksums.NAME} is another")
        metrics = parsed(text)
        if not (isinstance(metrics, dict) and needed <= metrics.keys() and all(map(_sound, metrics.items()))):
            raise ValueError("it has not the numbers of a finished run")
        return metrics
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _say_once(f"{folder / METRICS} is damaged ({one_line(error)[:200]}): the command of the run makes it anew")
        return None


def _sound(item: tuple[str, object]) -> bool:
    """Whether a number is one, as far as that can be told without a checksum."""
    key, value = item
    if not (key in NUMBERS or key.startswith(("acc_", "nll_", "train_acc"))):
        return True
    if value is None:  # what has no meaning for the run
        return key not in NUMBERS and key not in TRAINED
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


@functools.lru_cache(1000)
def _say_once(warning: str) -> None:
    log.warning(warning)


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
            keep_config(folder, cfg)
        except OSError as error:
            raise ConfigError(
                f"cannot be used ({error.strerror}): use another folder", "out_dir", cfg.out_dir
            ) from error
        yield folder


def keep_config(folder: Path, cfg: DictConfig) -> None:
    """The configuration in its folder, made anew where it is damaged: the caller has it, and its digest is the name."""
    try:
        stored.load(folder / CONFIG)
        return
    except FileNotFoundError:
        pass
    except Exception as error:  # yaml raises nearly anything
        log.warning("%s is damaged (it %s): it is made anew", folder / CONFIG, one_line(error)[:200])
    text = OmegaConf.to_yaml(cfg, resolve=True).encode()
    checksums.seal(folder, {CONFIG: text})
    write_atomically(folder / CONFIG, text)


def saved_config(
    folder: Path, key: str | None = "resume", script: str = TRAIN, targets: Targets | None = None
) -> DictConfig:
    """The configuration of an earlier run of a script, to go on with it or to open it.

    key      what the user gave the folder with, for messages
    targets  the import paths that the user names too: a folder alone, which may be a stranger's, names no code
    """
    cfg = stored_config(folder, key, script)
    for name in TARGETS:
        target = OmegaConf.select(cfg, name)
        if target is None or not _is_code(cfg, name):
            continue
        named = (targets or {}).get(name, ())
        if target not in ((named,) if isinstance(named, str) else named):
            raise _wrong(
                folder, key,
                f"takes code from {name}={target}, and a folder alone may name no code to import: if you trust it, "
                f"give {name}={target} on the command line, too",
            )  # fmt: skip
        OmegaConf.update(cfg, name, target)  # what was compared
    if cfg.get("data_dir") is not None and not _has_data(cfg):
        log.warning("%s had its data in %s, where there is none: data_dir=FOLDER names another", folder, cfg.data_dir)
        cfg.data_dir = None
    return cfg


def _has_data(cfg: DictConfig) -> bool:
    """Whether the data of a run still lies where its folder says. Only then it is used: a folder alone, which may be a
    stranger's, has nothing fetched to places that it names."""
    from varnet.data.fetch import cache_path  # here: a report does without data, and without torch

    try:
        return cache_path(str(cfg.dataset.name), Path(str(cfg.data_dir)).expanduser()).is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def _is_code(cfg: DictConfig, name: str) -> bool:
    """Whether the value is an import path: of a dataset that is known by name its spec says so (of a table it is a
    column). What is not known is taken for code."""
    from varnet.data import DATASETS  # here, as above

    group, _, option = name.partition(".")
    kind = OmegaConf.select(cfg, f"{group}.name")
    return group != "dataset" or not isinstance(kind, str) or kind not in DATASETS or option in DATASETS[kind].code


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
