"""The columns of a CSV, as text or as numbers; what is no number is told by line and column."""

import csv
import math
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from varnet.errors import ConfigError, one_line


@dataclass(frozen=True)
class Columns:
    """Rows of text under their names."""

    names: list[str]
    rows: list[list[str]]
    lines: list[int]  # of the file, where the rows stand

    def texts(self, name: str, key: str) -> list[str]:
        """The values of a column, none of which is empty."""
        place = self.names.index(name)
        values = [row[place].strip() for row in self.rows]
        if "" in values:
            line = self.lines[values.index("")]
            raise ConfigError(f"has nothing in line {line}: fill it in or leave the line out", key, name)
        return values

    def numbers(self, names: list[str], key: str, value: object, hint: str = "") -> Tensor:
        """(rows, names) in float32; key, value: the option that is told to be at fault."""
        places = [self.names.index(name) for name in names]
        table = [[_number(row[place]) for place in places] for row in self.rows]
        for row, numbers in enumerate(table):
            for place, name, found in zip(places, names, numbers, strict=True):
                if not math.isfinite(found):
                    raise ConfigError(
                        f"has {self.rows[row][place].strip()[:40]!r} in line {self.lines[row]}, column {name!r}, which "
                        f"is no finite number: make it one, or leave the line or the column out{hint}", key, value,
                    )  # fmt: skip
        return torch.tensor(table, dtype=torch.double).float()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_columns(path: str | PathLike) -> Columns:
    """A file in UTF-8 with commas, its first line the names of its columns."""
    if not Path(path).is_file():  # a device may have no end
        raise _unfit(path, "is not there, or is no file: name a CSV file")
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
        raise _unfit(path, f"cannot be read ({reason}): name a CSV file in UTF-8") from error
    if len(lines) < 2:
        raise _unfit(path, "has no rows below a line with the names of the columns: add what is missing")
    names = [cell.strip() for cell in lines[0][1]]
    if all(not math.isnan(_number(name)) for name in names):
        raise _unfit(path, "begins with a line of numbers: put the names of the columns above it")
    if "" in names or len(set(names)) < len(names):
        raise _unfit(path, "has columns without a name, or two of one name: give each its own in the first line")
    for line, row in lines[1:]:
        if len(row) != len(names):
            raise _unfit(path, f"has {len(row)} values in line {line} for {len(names)} columns: give one for each")
    return Columns(names, [row for _, row in lines[1:]], [line for line, _ in lines[1:]])


def _unfit(path: object, text: str) -> ConfigError:
    return ConfigError(text, "file", path)
