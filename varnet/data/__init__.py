"""Named dataset -> verified tensors on the device -> batches."""

from varnet.data.dataset import NAMES, Dataset, load
from varnet.data.errors import DataError
from varnet.data.loader import Loader

__all__ = ["NAMES", "DataError", "Dataset", "Loader", "load"]
