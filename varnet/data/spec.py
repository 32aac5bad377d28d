"""What varnet knows of a dataset: one Spec each, registered by its file in varnet/data/sets/ (configs/dataset/ has the
options that `dataset=NAME` takes).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import NamedTuple

from varnet.base.checks import Check
from varnet.data.dataset import Dataset, Tensors
from varnet.errors import ConfigError


class Labels(NamedTuple):
    """One of the labellings of a dataset that has several."""

    column: int
    classes: int


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A dataset by name.

    labels   the labellings to choose from, the default first; empty where there is one
    options  its own options and what their values have to be; null is always allowed and is the default
    needed   those of its own options that have no default
    code     those of its own options that name code to import, which no folder may do alone (runs.folder)
    scaled   whether inputs are shown with mean 0 and standard deviation 1, by the training set
    """

    name: str
    labels: Mapping[str, Labels] = field(default_factory=dict)
    options: Mapping[str, Check] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    scaled: bool = False

    def load(self, data_dir: str | PathLike | None, labels: str | None, seed: int, own: dict) -> Dataset:
        """All of it; `own` holds those of its own options that are not null."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Generated(Spec):
    """A dataset that needs no files: `make(seed, **own)` gives its tensors. `source` may mention {seed}. Of numbers
    there are 0 classes."""

    classes: int
    make: Callable[..., Tensors]
    source: str

    def load(self, data_dir: str | PathLike | None, labels: str | None, seed: int, own: dict) -> Dataset:
        return Dataset(self.name, **self.make(seed, **own), classes=self.classes, source=self.source.format(seed=seed))


DATASETS: dict[str, Spec] = {}  # by name


def register(spec: Spec) -> Spec:
    if spec.name in DATASETS:
        raise ValueError(f"dataset {spec.name} is registered already: choose another name")
    DATASETS[spec.name] = spec
    return spec


def find(name: object) -> Spec:
    if isinstance(name, str) and name in DATASETS:
        return DATASETS[name]
    raise ConfigError(f"is not known: choose one of {', '.join(DATASETS)}", "name", name)


def own_options() -> tuple[str, ...]:
    """The options that only some of the datasets have."""
    return tuple(dict.fromkeys(key for spec in DATASETS.values() for key in spec.options))


def check_own(spec: Spec, options: Mapping[str, object]) -> dict[str, object]:
    """Those of its own options that are given."""
    given = {key: value for key, value in options.items() if value is not None}
    for key, value in given.items():
        if key not in spec.options:
            raise _misplaced(spec, key, value)
        spec.options[key](key, value)
    for key in spec.needed:
        spec.options[key](key, given.get(key))
    return given


def _misplaced(spec: Spec, key: str, value: object) -> ConfigError:
    owners = [f"dataset={name}" for name, other in DATASETS.items() if key in other.options]
    if not owners:
        return ConfigError(f"is not known for dataset={spec.name}: leave it out", key, value)
    return ConfigError(f"is only for {' and '.join(owners)}, not for dataset={spec.name}: use {key}=null", key, value)
