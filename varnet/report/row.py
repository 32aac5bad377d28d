"""The one definition of a result row: a number of ours beside a published one, and what it takes to get it again.

    row = Row.of("layer", "kl", [1.6, 1.7], published=1.7, scale="full", command="...", commit="0123456789")
    row.mean, row.std, row.n, row.difference

JSON is written and read here, Markdown and HTML are made in tables.py.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from varnet.errors import ConfigError
from varnet.report.verdict import verdict


@dataclass(frozen=True)
class Row:
    """The mean of one metric over the seeds of one network."""

    row: str  # its label: what was trained
    metric: str  # key of metrics.json, or words
    published: float | None
    mean: float | None
    std: float | None  # of the sample (n - 1); None for one run
    n: int
    scale: str
    command: str  # that gives the number again
    commit: str | None
    poster: float | None = None  # the paper's poster prints an earlier run of Table 1
    precision: str | None = None
    epochs: int | None = None
    seeds: list[int] | None = None
    sampling_error: float | None = None  # standard error of the mean that is left by the noise samples of an ELBO alone
    noise_samples: str | None = None  # how many there were for each object
    more: dict[str, object] = field(default_factory=dict)  # what the rows of one table have and others have not
    keys: tuple[str, ...] = field(default=(), compare=False, repr=False)  # of the file that it was read from

    @classmethod
    def of(
        cls, row: str, metric: str, values: Sequence[float], published: float | None = None, **about: Any
    ) -> "Row":  # fmt: skip
        """The row of these values, one for each seed."""
        mean = statistics.fmean(values) if values else None
        std = statistics.stdev(values) if len(values) > 1 else None
        return cls(row, metric, published, mean, std, len(values), **about)

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.published is None else self.mean - self.published

    @property
    def verdict(self) -> str | None:
        """Of a row that could give the published number: a narrower network, or fewer epochs of the published schedule,
        neither shows nor contradicts it."""
        if self.scale not in JUDGED:
            return None
        return verdict(self.metric, self.published, self.mean, self.std, self.n)

    def as_dict(self) -> dict:
        """The keys and values of a file; a row that was read has the keys of its file, in their order."""
        values = {
            "row": self.row, "metric": self.metric, "published": self.published, "poster": self.poster,
            "mean": self.mean, "std": self.std, "n": self.n,
            "sampling_error": self.sampling_error, "noise_samples": self.noise_samples,
            "difference": self.difference, "verdict": self.verdict, **self.more,
            "scale": self.scale, "precision": self.precision, "epochs": self.epochs, "seeds": self.seeds,
            "command": self.command, "commit": self.commit,
        }  # fmt: skip
        left_out = {key for key in OPTIONAL if values[key] is None}
        return {key: values[key] for key in self.keys or (key for key in values if key not in left_out)}


OPTIONAL = ("verdict", "poster", "precision", "epochs", "seeds", "sampling_error", "noise_samples")
KNOWN = {each.name for each in fields(Row)} - {"more", "keys"}
JUDGED = ("full", "fast")  # scales
COMPUTED = ("difference", "verdict")


def as_json(rows: Iterable[Row]) -> str:
    """The content of a file of rows."""
    return json.dumps([row.as_dict() for row in rows], indent=1, ensure_ascii=False) + "\n"


def from_dict(values: dict) -> Row:
    """A row as a file has it; the difference and the verdict are computed anew."""
    known = {key: value for key, value in values.items() if key in KNOWN}
    more = {key: value for key, value in values.items() if key not in KNOWN and key not in COMPUTED}
    return Row(**known, more=more, keys=tuple(values))


def read(path: Path) -> list[Row]:
    """The rows of a file; none if there is no such file."""
    if not path.exists():
        return []
    try:
        return [from_dict(values) for values in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} holds no rows of a table: restore it, or delete it") from error


def short(commit: object) -> str:
    """Ten digits of a commit; that there were changes stays to be seen."""
    digits, dash, changes = str(commit).partition("-")
    return digits[:10] + dash + changes
