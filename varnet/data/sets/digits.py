"""scikit-learn's handwritten digits: 1,797 real 8 x 8 images, which need no download."""

import functools

import torch

from varnet.base.checks import one_of
from varnet.data.dataset import Tensors
from varnet.data.spec import Generated, register
from varnet.data.subset import balanced, others, take

TEST = 500  # 50 of each class; the other 1,297 images are for training
SPLIT_SEED = 0


def digits(seed: int, size: int = 28, channels: int = 1) -> Tensors:
    """Resized bilinearly to `size` and repeated over `channels`; always the same split, whatever the seed."""
    return dict(_resized(size, channels))


@functools.cache
def _resized(size: int, channels: int) -> Tensors:
    """Once in a process; nobody writes into the tensors of a dataset."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x = torch.from_numpy(data.images).float()[:, None] * (255 / 16)  # grey levels 0..16 -> 0..255
    x = torch.nn.functional.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
    x = x.round().to(torch.uint8).expand(-1, channels, -1, -1).contiguous(memory_format=torch.channels_last)
    y = torch.from_numpy(data.target).long()
    test = balanced(y, TEST, SPLIT_SEED)
    train = others(len(y), test)
    return {"train_x": take(x, train), "train_y": y[train], "test_x": take(x, test), "test_y": y[test]}


register(
    Generated(
        name="digits",
        classes=10,
        make=digits,
        source="scikit-learn",
        options={"size": one_of(28, 32), "channels": one_of(1, 3)},
    )
)
