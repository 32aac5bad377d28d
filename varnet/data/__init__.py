"""Named dataset -> verified tensors on the device -> batches."""

from varnet.data.dataset import NAMES, Dataset, load
from varnet.data.loader import Loader
from varnet.errors import DataError

__all__ = ["NAMES", "DataError", "Dataset", "Loader", "load"]
