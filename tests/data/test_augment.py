"""Crops and flips: uniform, per image, the same on both paths and as torchvision would do them."""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torchvision.transforms import functional as TF

from varnet.data import Loader
from varnet.data.augment import DRAWS, SIDE, copy_windows, crop_flip, gather

SIGNIFICANCE = 2 * stats.norm.sf(5)  # z = 5, two-sided: a right implementation fails once in 1.7 million seeds


def random_images(count, height=32, width=32, channels=3):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, height, width, channels), dtype=torch.uint8, generator=generator)


def coordinates(count):
    """12 x 12 images that tell their own crop: red is the row, green the column (both from 1), blue the label + 1."""
    axis = torch.arange(1, 13, dtype=torch.uint8)
    labels = torch.arange(count) % 10
    red = axis[:, None].expand(count, 12, 12)
    green = axis[None, :].expand(count, 12, 12)
    blue = (labels + 1).to(torch.uint8)[:, None, None].expand(count, 12, 12)
    return torch.stack([red, green, blue], dim=1), labels


def crops_of_an_epoch(count, seed=0):
    """(row offset, column offset, flipped, blue, label) of every image that an augmenting loader hands out."""
    x, y = coordinates(count)
    batches = list(Loader(x, y, 500, shuffle=True, augment=True, seed=seed))
    x = (torch.cat([x for x, _ in batches]) * 255).round().long()
    red, green, left, right, blue = x[:, 0, 5, 5], x[:, 1, 5, 5], x[:, 1, 5, 4], x[:, 1, 5, 6], x[:, 2, 5, 5]
    flip = (left > right).long()
    # Pixel 5 of the crop at offset d is pixel 5 + d - 4 of the image, from 1 to 9; of a flipped one it is 6 + d - 4.
    rows, columns = red - 1 - 1, green - 1 - torch.where(flip.bool(), 2, 1)
    return rows, columns, flip, blue, torch.cat([y for _, y in batches])


def test_offsets_are_uniform_over_the_81_positions_and_half_is_flipped():
    rows, columns, flip, _, _ = crops_of_an_epoch(40_500)
    assert rows.min() == columns.min() == 0 and rows.max() == columns.max() == SIDE - 1
    for cells, categories in ((rows * SIDE + columns, 81), ((rows * SIDE + columns) * 2 + flip, 162)):
        seen = torch.bincount(cells, minlength=categories).numpy()
        assert len(seen) == categories
        assert stats.chisquare(seen).pvalue > SIGNIFICANCE
    assert stats.binomtest(int(flip.sum()), len(flip), 0.5).pvalue > SIGNIFICANCE


def test_neighbours_are_drawn_independently():
    rows, columns, flip, _, _ = crops_of_an_epoch(40_500)
    draws = (rows * SIDE + columns) * 2 + flip
    same = int((draws[1:] == draws[:-1]).sum())
    assert stats.binomtest(same, len(draws) - 1, 1 / DRAWS).pvalue > SIGNIFICANCE


def test_labels_stay_with_their_images():
    _, _, _, blue, labels = crops_of_an_epoch(2_000)
    assert torch.equal(blue - 1, labels)


def test_equal_seeds_give_equal_crops_and_others_do_not():
    first, second, other = (torch.stack(crops_of_an_epoch(1_000, seed)) for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first[:3], other[:3])


@pytest.mark.parametrize("shape", [(32, 32, 3), (28, 28, 1), (32, 20, 2)])
def test_both_paths_give_the_same_bytes(shape):
    x, draws = random_images(2 * DRAWS, *shape), torch.arange(2 * DRAWS) % DRAWS
    assert torch.equal(copy_windows(x, draws), gather(x, draws))
    assert copy_windows(x, draws).dtype == torch.uint8


def test_crop_flip_takes_the_path_of_the_device(monkeypatch):
    x, draws = random_images(4), torch.arange(4)
    assert torch.equal(crop_flip(x, draws), gather(x, draws))
    on_meta = crop_flip(x.to("meta"), draws.to("meta"))  # numpy would refuse a tensor that is not on the CPU
    assert on_meta.shape == x.shape and on_meta.device.type == "meta"


@pytest.mark.parametrize("draw", [0, 1, 2 * 8, 2 * 40, 2 * 40 + 1, DRAWS - 1])
def test_the_same_pixels_as_torchvision(draw):
    x = random_images(1)
    (row, column), flip = divmod(draw // 2, SIDE), draw % 2
    image = TF.crop(TF.pad(Image.fromarray(x[0].numpy()), 4), row, column, 32, 32)
    image = TF.hflip(image) if flip else image
    assert np.array_equal(crop_flip(x, torch.tensor([draw]))[0].numpy(), np.asarray(image))


def test_the_input_is_left_alone():
    x = random_images(8)
    before = x.clone()
    crop_flip(x, torch.arange(8) * 7)
    assert torch.equal(x, before)
