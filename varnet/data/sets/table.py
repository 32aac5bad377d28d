"""A CSV of numbers: dataset=table dataset.file=x.csv dataset.target=y

The first line names the columns. All but the target are inputs, shown with mean 0 and standard deviation 1 by the
training rows. Which rows are for the test is drawn with `seed`.
"""

from dataclasses import dataclass
from os import PathLike

import numpy as np
import torch
from torch import Tensor

from varnet.base.checks import SWITCH, TEXT, Check, list_of, number
from varnet.data.csv_file import Columns, read_columns
from varnet.data.dataset import Dataset
from varnet.data.spec import Spec, register
from varnet.data.subset import chosen, others
from varnet.errors import ConfigError

TEST_FRACTION = 0.2
NAMES = list_of(TEXT, "")
TARGET = Check(
    lambda v: TEXT.fits(v) or (NAMES.fits(v) and len(list(v)) > 0), "the name of a column, or a list of names"
)
FILE = Check(TEXT.fits, "the name of a CSV file whose first line names its columns")


@dataclass(frozen=True, kw_only=True)
class Table(Spec):
    def load(self, data_dir: str | PathLike | None, labels: str | None, seed: int, own: dict) -> Dataset:
        columns = read_columns(own["file"])
        targets = [own["target"]] if isinstance(own["target"], str) else list(own["target"])
        _check_names(columns, targets, own["target"])
        x = columns.numbers([name for name in columns.names if name not in targets], "file", own["file"])
        y, classes = _classes(columns, targets) if own.get("classes") else (_numbers(columns, targets), 0)
        count = max(1, round(own.get("test_fraction", TEST_FRACTION) * len(y)))
        if len(y) - count < 2:
            raise ConfigError(f"has {len(y)} rows, too few to train and to test: use more", "file", own["file"])
        test = chosen(y, count, seed)
        train = others(len(y), test)
        return Dataset(self.name, x[train], y[train], x[test], y[test], classes, str(own["file"]))


def _check_names(columns: Columns, targets: list[str], given: object) -> None:
    if missing := [name for name in targets if name not in columns.names]:
        known = ", ".join(columns.names[:20])
        raise ConfigError(f"names no column {missing[0]!r}: choose from {known}", "target", given)
    if len(set(targets)) < len(targets) or len(targets) == len(columns.names):
        raise ConfigError(
            "leaves no column to predict from, or names one twice: name some columns once", "target", given
        )


def _numbers(columns: Columns, targets: list[str]) -> Tensor:
    return columns.numbers(targets, "target", targets[0], " (classes are for likelihood=categorical)")


def _classes(columns: Columns, targets: list[str]) -> tuple[Tensor, int]:
    """Numbered in the order of their names, or of their values if these are whole numbers."""
    if len(targets) > 1:
        raise ConfigError("names several columns, and a class is one: use likelihood=bernoulli", "target", targets)
    name = targets[0]
    values = np.array(columns.texts(name, "target"))
    try:
        values = values.astype(float)
    except ValueError:
        pass
    else:
        if not np.array_equal(values, np.round(values)):
            raise ConfigError(
                f"holds numbers such as {values[values != np.round(values)][0]:g}, no classes: use likelihood=gaussian",
                "target", name,
            )  # fmt: skip
    known, index = np.unique(values, return_inverse=True)
    if len(known) < 2:
        raise ConfigError(f"holds one class only ({known[0]}): use a column of two or more", "target", name)
    return torch.from_numpy(index.astype(np.int64)), len(known)


register(
    Table(
        name="table",
        options={
            "file": FILE, "target": TARGET, "classes": SWITCH, "test_fraction": number(0, 1, above=True, below=True),
        },
        needed=("file", "target"),
        scaled=True,
    )
)  # fmt: skip
