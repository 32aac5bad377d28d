"""Classes that are found by their name in a configuration and register themselves where they are written.

A file of one of the folders params/, priors/ and layers/ is imported with the folder, and with it its class is known.
The fields of the class, which is a dataclass, are the options that it takes.
"""

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import field, fields
from typing import Any, Generic, TypeVar

from varnet.base.checks import Check, one_of
from varnet.errors import ConfigError

T = TypeVar("T")


def option(default: Any, check: Check | None = None) -> Any:
    """A field of a dataclass: its default, and what its value has to be."""
    return field(default=default, metadata={"check": check})


def check_options(made: Any) -> None:
    """Look at the options of what has just been made; the __post_init__ of its class calls this."""
    for one in fields(made):
        if check := one.metadata.get("check"):
            check(one.name, getattr(made, one.name))


def options_of(cls: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(cls))


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every file of a folder, each of which registers its class."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


class Registry(dict[str, type[T]], Generic[T]):
    """Classes by their name, which is the value of the given key of a configuration."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def add(self, cls: type[T]) -> None:
        """Register a class that has a name of its own; without one it is a base for others."""
        if not (name := vars(cls).get("name")):
            return
        other = self.get(name, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"{self.key}={name} is registered already, by {other.__module__}: use another name")
        self[name] = cls

    def find(self, given: Any) -> type[T]:
        """The class of a name, or of an object that is made already."""
        if not isinstance(given, str) and isinstance(given, tuple(self.values())):
            cls: Any = type(given)
            return cls
        one_of(*sorted(self))(self.key, given)
        return self[given]

    def options(self) -> tuple[str, ...]:
        """The options that any of the classes takes."""
        return tuple(dict.fromkeys(key for cls in self.values() for key in options_of(cls)))

    def make(self, given: Any, options: dict[str, Any]) -> T:
        """One of the classes, by name, with its options. Those that others have are looked at and left out."""
        cls: Any = self.find(given)
        if not isinstance(given, str):
            if options:
                raise ConfigError(
                    f"has its options: give {', '.join(options)} with a name such as {cls.name}", self.key, given
                )
            return given
        own = {key: value for key, value in options.items() if key in options_of(cls)}
        for key in options.keys() - own.keys():
            self._check(key, options[key])
        return cls(**own)

    def _check(self, key: str, value: object) -> None:
        classes: list[Any] = list(self.values())
        checks = (one.metadata.get("check") for cls in classes for one in fields(cls) if one.name == key)
        if check := next(checks, None):
            check(key, value)
