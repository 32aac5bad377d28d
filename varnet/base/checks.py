"""What a value has to be, as a test and in words: one set of checks for arguments, options and configurations.

>>> whole(1)("eval.samples", 20)
20
"""

import math
import numbers
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

from varnet.errors import ConfigError, shown


class Check(NamedTuple):
    fits: Callable[[object], bool]
    wanted: str

    def __call__(self, key: str, value: object):
        """The value, if it fits; else an error that names key, value and remedy."""
        if not self.fits(value):
            raise ConfigError(f"is invalid: use {self.wanted}", key, value)
        return value


def whole(low: int = 0, high: int = 2**63 - 1) -> Check:
    wanted = f"a whole number from {low}" + ("" if high == 2**63 - 1 else f" to {high}")
    return Check(lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high, wanted)


def number(low: float = -math.inf, high: float = math.inf, above: bool = False, below: bool = False) -> Check:
    """A finite number in [low, high]; `above` and `below` leave out the ends. Whole ones are those that torch takes."""

    def fits(v: object) -> bool:
        if isinstance(v, bool) or not isinstance(v, numbers.Real):
            return False
        if not (-(2**63) <= v < 2**63 if isinstance(v, int) else math.isfinite(v)):
            return False
        return (v > low if above else v >= low) and (v < high if below else v <= high)

    ends = "" if low == -math.inf else f" {'above' if above else 'from'} {low:g}"
    ends += "" if high == math.inf else f" {'below' if below else 'up to'} {high:g}"
    return Check(fits, f"a finite number{ends}")


def one_of(*choices: object) -> Check:
    """Of the same type too: 1 is not true."""
    wanted = "one of " + ", ".join(map(shown, choices))
    return Check(lambda v: any(type(v) is type(c) and v == c for c in choices), wanted)


def list_of(one: Check, wanted: str) -> Check:
    """A list, or what a configuration has in its place."""
    return Check(lambda v: isinstance(v, Iterable) and not isinstance(v, str | dict) and all(map(one.fits, v)), wanted)


def or_null(check: Check) -> Check:
    return Check(lambda v: v is None or check.fits(v), f"{check.wanted}, or null")


def _is_interval(v: object) -> bool:
    return isinstance(v, Iterable) and len(ends := list(v)) == 2 and all(map(FINITE.fits, ends)) and ends[0] < ends[1]


def _is_path(v: object) -> bool:
    """That every file system and terminal can hold: Cc are control characters, Cs bytes that are no UTF-8."""
    return isinstance(v, str) and v != "" and not any(unicodedata.category(c) in ("Cc", "Cs") for c in v)


def _is_folder_name(v: object) -> bool:
    return _is_path(v) and all(part not in ("", ".", "..") for part in str(v).split("/"))


FINITE = number()
SWITCH = one_of(True, False)
TEXT = Check(lambda v: isinstance(v, str) and v != "", "a name")
COUNT = whole(1, 10**6)  # of what is done so many times
FOLDER = Check(_is_path, "the name of a folder (a number as ./5), in UTF-8 and without control characters")
FOLDER_INSIDE = Check(_is_folder_name, "a name of a folder inside out_dir, in UTF-8 and without control characters")
INTERVAL = Check(_is_interval, "two numbers, the smaller first, or null for none")
SEED = whole(0, 2**31 - 1)
THREADS = or_null(whole(1, 1024))
