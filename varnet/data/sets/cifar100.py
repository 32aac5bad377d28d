"""CIFAR-100: 50,000 + 10,000 images of 32 x 32 x 3, normalised by channel, with 100 fine and 20 coarse labels."""

import numpy as np

from varnet.data.fetched import Fetched
from varnet.data.official import Arrays, Files, Official, OfficialFile
from varnet.data.sets._cifar import from_records, to_records
from varnet.data.sources import (
    in_archive,
    in_folder,
    torchvision_archive,
    torchvision_download,
    torchvision_folder,
)
from varnet.data.spec import Labels, register

FILES = {
    "train.bin": OfficialFile(153_700_000, "6172c7755cfe09b2fe270c85cebc1b15"),
    "test.bin": OfficialFile(30_740_000, "4499cfba6c016c1be1438163640a0898"),
}
# The coarse label of each fine label (https://www.cs.toronto.edu/~kriz/cifar.html); torchvision reads only the fine
# fmt: off
COARSE = np.array([
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0,
    11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19,
    18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
], np.uint8)
# fmt: on


def decode(files: Files) -> Arrays:
    x, y = from_records(files["train.bin"], labels=2)
    test_x, test_y = from_records(files["test.bin"], labels=2)
    return {"train_x": x, "train_y": y, "test_x": test_x, "test_y": test_y}


def encode(arrays: Arrays) -> Files:
    return {f"{split}.bin": to_records(arrays[f"{split}_x"], arrays[f"{split}_y"]) for split in ("train", "test")}


def both(fine: np.ndarray) -> np.ndarray:
    """Coarse and fine labels, as the official files have them."""
    return np.stack([COARSE[fine], fine], axis=1)


register(
    Fetched(
        name="cifar100",
        classes=100,
        labels={"fine": Labels(column=1, classes=100), "coarse": Labels(column=0, classes=20)},
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        official=Official(FILES, decode, encode),
        sources=(
            in_folder("cifar-100-binary"),
            in_archive("cifar-100-binary.tar.gz"),
            torchvision_folder("CIFAR100", "cifar-100-python", both),
            torchvision_archive("CIFAR100", "cifar-100-python.tar.gz", both),
            torchvision_download("CIFAR100", both),
        ),
    )
)
