"""Which layers are meant: names, prefixes and patterns -> names of layers of a model."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from varnet.errors import ConfigError


def select(wanted: str | Iterable[str], names: list[str]) -> list[str]:
    """The names, in order, that `wanted` picks: "all", "none", one name, or a list of names.

    A name also stands for everything inside it (`layer4`), and may be a pattern (`layer4.*.conv2`).
    """
    if isinstance(wanted, str):
        wanted = {"all": names, "none": []}.get(wanted, [wanted])
    if not isinstance(wanted, Iterable):
        raise ConfigError(
            "is not a list of names of layers: use all, none, a name, or a list of names", "layers", wanted
        )
    picked = set()
    for name in wanted:
        if not isinstance(name, str):
            raise ConfigError(
                "is not a list of names of layers: use all, none, a name, or a list of names", "layers", wanted
            )
        found = [n for n in names if n == name or n.startswith(name + ".") or fnmatchcase(n, name)]
        if not found:
            raise ConfigError(f"there is no layer {name!r}; choose from: {', '.join(names) or 'none'}", "layers")
        picked.update(found)
    return [n for n in names if n in picked]
