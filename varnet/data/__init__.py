"""Named dataset -> verified tensors on the device -> batches."""

from varnet.data.dataset import Dataset
from varnet.data.loader import Loader
from varnet.data.loading import NAMES, load
from varnet.data.spec import DATASETS, Generated, Spec, own_options, register
from varnet.errors import DataError

__all__ = [
    "DATASETS",
    "NAMES",
    "DataError",
    "Dataset",
    "Generated",
    "Loader",
    "Spec",
    "load",
    "own_options",
    "register",
]
