"""A user's own data: dataset=custom dataset.target=package.module:function dataset.options={...}

The function is called with the options and gives a Dataset, or a dict or tuple of train_x, train_y, test_x, test_y and,
if need be, classes, mean, std. Only what the caller of `load` names is imported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

from varnet.base.checks import Check
from varnet.base.importing import imported
from varnet.data.dataset import Dataset
from varnet.data.given import Unfit, dataset_of
from varnet.data.spec import Spec, register
from varnet.errors import ConfigError, one_line

TARGET = Check(lambda v: isinstance(v, str) or callable(v), "package.module:function")
OPTIONS = Check(lambda v: isinstance(v, dict) and all(isinstance(key, str) for key in v), "{name: value, ...}")


@dataclass(frozen=True, kw_only=True)
class Custom(Spec):
    def load(self, data_dir: str | PathLike | None, labels: str | None, seed: int, own: dict) -> Dataset:
        target = own["target"]
        make = imported(target, "target") if isinstance(target, str) else target
        path = target if isinstance(target, str) else getattr(make, "__qualname__", type(make).__name__)
        try:
            return dataset_of(_called(make, own.get("options", {})), self.name, path)
        except Unfit as error:
            raise ConfigError(str(error), "target", path) from error


def _called(make: Callable[..., Any], options: dict[str, Any]) -> object:
    try:
        return make(**options)
    except Exception as error:  # whatever the user's function does
        reason = one_line(f"{type(error).__name__}: {error}")
        raise Unfit(f"fails ({reason}): mend the function or the options {sorted(options)}") from error


register(Custom(name="custom", options={"target": TARGET, "options": OPTIONS}, needed=("target",), code=("target",)))
