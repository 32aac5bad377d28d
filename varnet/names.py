"""Which layers are meant: names, prefixes and patterns -> names of layers of a model."""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def select(wanted: str | Iterable[str], names: list[str]) -> list[str]:
    """The names, in order, that `wanted` picks: "all", "none", one name, or a list of names.

    A name also stands for everything inside it (`layer4`), and may be a pattern (`layer4.*.conv2`).
    """
    if isinstance(wanted, str):
        wanted = {"all": names, "none": []}.get(wanted, [wanted])
    if not isinstance(wanted, Iterable):
        raise ValueError(f"layers={wanted!r} is not a list of names of layers")
    picked = set()
    for name in wanted:
        if not isinstance(name, str):
            raise ValueError(f"layers={wanted!r} is not a list of names of layers")
        found = [n for n in names if n == name or n.startswith(name + ".") or fnmatchcase(n, name)]
        if not found:
            raise ValueError(f"layers: there is no layer {name!r}; choose from: {', '.join(names) or 'none'}")
        picked.update(found)
    return [n for n in names if n in picked]
