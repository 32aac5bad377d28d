"""The datasets that varnet has, a file each: `dataset=NAME` finds whatever is registered here."""

import importlib
import pkgutil


def register_all() -> None:
    """Import every file of this folder, each of which registers its Spec; names with _ in front are shared parts."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{__name__}.{module.name}")
