"""A dataset of official files, which are fetched on first use and verified by their MD5 sums."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch

from varnet.data.dataset import Dataset
from varnet.data.fetch import fetch
from varnet.data.folder import data_folder
from varnet.data.official import Official
from varnet.data.sources import Source
from varnet.data.spec import Spec


@dataclass(frozen=True, kw_only=True)
class Fetched(Spec):
    """Images, and where they come from: `sources` are tried in order; mean, std as in Dataset."""

    classes: int
    official: Official
    sources: tuple[Source, ...]
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def load(self, data_dir: str | PathLike | None, labels: str | None, seed: int, own: dict) -> Dataset:
        fetched = fetch(self, data_folder(data_dir))
        column, classes = self.labels.get(labels or "") or next(iter(self.labels.values()), (None, self.classes))
        tensors: dict[str, Any] = {key: torch.from_numpy(array) for key, array in fetched.arrays.items()}
        for split in ("train", "test"):
            tensors[f"{split}_x"] = tensors[f"{split}_x"].permute(0, 3, 1, 2)
            y = tensors[f"{split}_y"].long()
            tensors[f"{split}_y"] = y if column is None else y[:, column].contiguous()
        return Dataset(self.name, **tensors, classes=classes, source=fetched.source, mean=self.mean, std=self.std)
