"""The import of what a user names: `package.module:function`, a network or a dataset that varnet has not got.

Only what the caller was given by its user may be imported: see runs.folder.saved_config for what a run folder says.
"""

import importlib
import os
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

from varnet.errors import ConfigError, one_line

REMEDY = "use package.module:function, of an installed package or of the current folder"


def imported(path: object, key: str = "target") -> Callable[..., Any]:
    """The function at `package.module:function`; the current folder is searched too, as by `python -m`.

    >>> imported("math:sqrt")(9.0)
    3.0
    """
    module, names = _parts(path, key)
    _search_current_folder()
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is imported
        raise ConfigError(f"cannot be imported ({_one_line(error)}): {REMEDY}", key, path) from error
    try:
        function = reduce(getattr, names, found)
    except AttributeError as error:
        raise ConfigError(f"cannot be imported ({_one_line(error)}): {REMEDY}", key, path) from error
    if not callable(function):
        raise ConfigError(f"is not a function (its type is {type(function).__name__}): {REMEDY}", key, path)
    return function


def _parts(path: object, key: str) -> tuple[str, list[str]]:
    module, colon, name = path.partition(":") if isinstance(path, str) else ("", "", "")
    names = name.split(".")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *names)):
        raise ConfigError(f"is invalid: {REMEDY}", key, path)
    return module, names


def _search_current_folder() -> None:
    """An installed command has the folder of its script on the path in place of the current one."""
    here = os.getcwd()
    if not getattr(sys.flags, "safe_path", False) and not {"", here} & set(sys.path):
        sys.path.insert(0, here)
    importlib.invalidate_caches()  # the module may have been written a moment ago


def _one_line(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}")
