"""What the scripts' command lines share: the order of flags, folders given by name, and how a script ends."""

import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from varnet.base.checks import FOLDER
from varnet.base.invocation import command
from varnet.errors import ConfigError
from varnet.runs.folder import METRICS
from varnet.runs.overrides import explain
from varnet.runs.shelf import home

WITH_VALUE = {  # of Hydra's flags
    "--cfg", "-c", "--package", "-p", "--info", "-i", "--experimental-rerun", "--config-path", "-cp", "--config-name",
    "-cn", "--config-dir", "-cd",
}  # fmt: skip
FOREIGN = ("config_name", "config_path", "config_dir", "experimental_rerun")  # which would take another configuration


def flags_first(arguments: list[str]) -> list[str]:
    """Hydra takes no flag between overrides. A flag keeps its value, which is no key=value."""
    flags, overrides = [], []
    for i, argument in enumerate(arguments):
        valued = i > 0 and arguments[i - 1] in WITH_VALUE and "=" not in argument
        (flags if argument.startswith("-") or valued else overrides).append(argument)
    return flags + overrides


def named_folder(overrides: list[str], key: str) -> tuple[Path | None, list[str]]:
    """The folder that resume= or render= names, and the other overrides. It is not for the configuration: Hydra's + and
    ++ before the key change nothing."""
    named = [o for o in overrides if o.lstrip("+").startswith(f"{key}=")]
    given = named[-1].partition("=")[2] if named else "null"
    if not given:
        raise ConfigError("is empty: name the folder of a run, or leave it out", key, "")
    return None if given == "null" else Path(FOLDER(key, given)), [o for o in overrides if o not in named]


def check_flags(arguments: list[str], name: str) -> None:
    """Hydra's parser of flags, whose complaint would be several lines."""
    from hydra._internal.utils import get_args_parser

    def refuse(message: str) -> NoReturn:
        raise ConfigError(f"{message}: {command(name)} --help tells more")

    parser = get_args_parser()
    parser.error = refuse
    if "--" in arguments:
        refuse("-- is not known")
    given = parser.parse_args(arguments)
    for key in FOREIGN:
        if getattr(given, key, None) is not None:
            refuse(f"--{key.replace('_', '-')} is invalid, as the configuration is varnet's own: give key=value")


def by_hydra(main: Callable[[], None], overrides: Sequence[str], name: str) -> None:
    """main() of a script, its complaints about the command line in one sentence. What a run itself raises is no such
    complaint: it keeps its traceback, unless a launcher's process has it."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come here instead of being printed by Hydra
    own = getattr(main, "__wrapped__", main).__code__
    check_flags(sys.argv[1:], name)
    try:
        main()
    except Exception as error:
        if any(frame.f_code is own for frame, _ in traceback.walk_tb(error.__traceback__)):
            raise
        raise ConfigError(explain(error, overrides, name)) from error


def in_out_dir(overrides: list[str]) -> None:
    """Refuse a folder for the run in Hydra's own words: Hydra would make it, and the run would write elsewhere."""
    for override in overrides:
        key, equals, value = override.lstrip("+").partition("=")
        if equals and key == "hydra.run.dir":
            raise ConfigError("is not where a run goes, which is out_dir/name/seedSEED-HASH: use out_dir=", key, value)


def alone(folder: Path, key: str, others: list[str]) -> None:
    """Refuse what has no meaning beside a folder given by name."""
    if others:
        raise ConfigError(f"{others[0]} has no meaning beside {key}={folder}, a run as it was begun: leave it out")


def places_and_overrides(arguments: list[str]) -> tuple[list[Path], list[str]]:
    """The runs, which may have = in their names, and the key=value."""
    if flags := [a for a in arguments if a.startswith("-")]:
        raise ConfigError(f"{flags[0]} is not known: give runs and key=value, or only --help")
    overrides = [a for a in arguments if "=" in a and not _is_there(a)]
    places = [Path(a) for a in arguments if a not in overrides]
    if not places:
        raise ConfigError(f"{overrides[0]} comes without a run: name the folder of a finished run")
    return places, overrides


def _is_there(place: str) -> bool:
    try:
        return Path(place).exists()
    except (OSError, ValueError):  # longer than any name
        return False


def folder_for(places: list[Path], out: str | None) -> Path:
    """The folder of numbers about these runs and snapshots: that of the only run, or out=."""
    own = home(places[0]) if len(places) == 1 and places[0].suffix != ".pt" else None
    folder = Path(out) if out else own
    if folder is None:
        what = "several runs have" if len(places) > 1 else "a snapshot has"
        raise ConfigError(f"{what} no folder for these numbers: say where they go with out=FOLDER")
    if (folder / METRICS).exists() and not (own and folder.resolve() == own.resolve()):
        raise ConfigError("is the folder of a run, which has numbers of its own: use another one", "out", folder)
    return folder


def writable(folder: Path) -> None:
    """Make it, before the work whose numbers it is for."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def check_unlike(path: Path, same: Callable[[dict], bool], what: str) -> None:
    """Numbers about something else are not replaced; `same` looks at those in the file."""
    if not path.exists():
        return
    try:
        found = same(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, KeyError, AttributeError):
        found = False
    if not found:
        raise ConfigError(f"{path} is of {what}: use out=FOLDER for another place, or delete it")
