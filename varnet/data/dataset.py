"""The tensors of a dataset, and batches of them."""

from dataclasses import dataclass
from typing import Any, TypedDict

from torch import Tensor

from varnet.data.loader import Loader
from varnet.errors import DataError


class Tensors(TypedDict):
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images are uint8, (N, channels, height, width), channels-last in memory; points are float32, (N, ...).

    Targets are classes, int64 (N,), or numbers, float32 (N, D), and then there are 0 classes.
    """

    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: int
    source: str
    mean: tuple[float, ...] | None = None  # per channel, of images in [0, 1]; None: not normalised
    std: tuple[float, ...] | None = None
    augment: bool | str = False
    validation_x: Tensor | None = None
    validation_y: Tensor | None = None

    @property
    def in_shape(self) -> tuple[int, ...]:
        return tuple(self.train_x.shape[1:])

    @property
    def targets(self) -> int:
        """How many numbers an object has for a target; 0 where it has a class."""
        return 0 if self.train_y.ndim == 1 else self.train_y.shape[1]

    def loader(self, split: str = "train", batch_size: int | None = None, **options: Any) -> Loader:
        """Batches of `train` (shuffled, augmented if the dataset is), `validation` or `test`; options of Loader."""
        x, y = getattr(self, f"{split}_x", None), getattr(self, f"{split}_y", None)
        if x is None or y is None:
            have = "train, test" if self.validation_x is None else "train, validation, test"
            raise DataError(f"split={split} is not there: {self.name} has {have}; validation_size=N holds images out.")
        train = {"shuffle": True, "augment": self.augment} if split == "train" else {}
        return Loader(x, y, batch_size, **{"mean": self.mean, "std": self.std, **train, **options})
