"""Datasets that need no files: scikit-learn's handwritten digits and the paper's toy problem."""

import torch
from torch import Tensor

from varnet.data.subset import balanced, others, take

DIGITS_TEST = 500  # 50 of each class; the other 1,297 images are for training
DIGITS_SPLIT_SEED = 0
TOY_MEANS = ((3.0, 3.0), (3.0, 10.0), (10.0, 3.0), (10.0, 10.0))
TOY_POINTS = 500  # per class, in training and in test

Tensors = dict[str, Tensor]  # train_x, train_y, test_x, test_y


def digits(size: int, channels: int) -> Tensors:
    """1,797 real 8 x 8 images, resized bilinearly to `size` and repeated over `channels`; always the same split."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x = torch.from_numpy(data.images).float()[:, None] * (255 / 16)  # grey levels 0..16 -> 0..255
    x = torch.nn.functional.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
    x = x.round().to(torch.uint8).expand(-1, channels, -1, -1).contiguous(memory_format=torch.channels_last)
    y = torch.from_numpy(data.target).long()
    test = balanced(y, DIGITS_TEST, DIGITS_SPLIT_SEED)
    train = others(len(y), test)
    return {"train_x": take(x, train), "train_y": y[train], "test_x": take(x, test), "test_y": y[test]}


def toy(seed: int) -> Tensors:
    """500 points per class from N(m, I), m the corners of a square (Appendix of the paper), and as many to test."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(len(TOY_MEANS)).repeat_interleave(TOY_POINTS)
    centres = torch.tensor(TOY_MEANS)[y]
    train, test = (centres + torch.randn(centres.shape, generator=generator) for _ in range(2))
    return {"train_x": train, "train_y": y, "test_x": test, "test_y": y.clone()}
