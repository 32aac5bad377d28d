"""Where a network has binary dropout, and how much: at the published places or some of them, at the published rates or
weaker ones, for schedules that are too short for these."""

from collections.abc import Iterable

from varnet.base.checks import FINITE, SWITCH, TEXT, Check, list_of, number
from varnet.errors import ConfigError

_FACTOR, _NAMES = number(0, 1, above=True), list_of(TEXT, "names")


def _fits(v: object) -> bool:
    return SWITCH.fits(v) or _FACTOR.fits(v) or TEXT.fits(v) or (_NAMES.fits(v) and v != [])


DROPOUT = Check(_fits, "true, false, a number above 0 up to 1, or names of the layers that it stands before")


class Dropping:
    """The rate of dropout before each layer of a network under construction."""

    def __init__(self, asked: bool | float | str | Iterable[str]) -> None:
        DROPOUT("dropout", asked)
        self.factor = float(asked) if FINITE.fits(asked) else 1.0  # of the published rates
        names = (asked,) if isinstance(asked, str) else asked if isinstance(asked, Iterable) else None
        self.chosen = None if names is None else list(names)
        self.off = asked is False
        self.places: list[str] = []  # layers that it stands before as published

    def rate(self, layer: str, published: float) -> float:
        """Before this layer; 0 for none."""
        if not published:
            return 0.0
        self.places.append(layer)
        return 0.0 if self.off or (self.chosen is not None and layer not in self.chosen) else self.factor * published

    def check_names(self) -> None:
        """Refuse names before which no dropout is published, once all layers are there."""
        for name in self.chosen or ():
            if name not in self.places:
                known = ", ".join(self.places)
                raise ConfigError(f"has no place before {name!r}; choose from: {known}", "dropout", self.chosen)
