"""Turned images and images of another dataset."""

import pytest
import torch
from torch import nn

from varnet.data import Dataset, load
from varnet.evaluation import shift as ood
from varnet.evaluation.predictions import Predictions


def dataset(x: torch.Tensor, mean=None, std=None) -> Dataset:
    y = torch.zeros(len(x), dtype=torch.long)
    return Dataset("mnist", x, y, x, y, classes=2, source="test", mean=mean, std=std)


def test_a_quarter_turn_is_exact_and_corners_are_black():
    x = torch.arange(2 * 1 * 4 * 4, dtype=torch.float).view(2, 1, 4, 4)
    data = dataset(x)
    ((turned, _),) = ood.Turned([(x, data.test_y)], 90, data)
    torch.testing.assert_close(turned, x.rot90(1, (2, 3)))
    ((same, _),) = ood.Turned([(x, data.test_y)], 0, data)
    assert torch.equal(same, x)
    white = torch.ones(1, 3, 9, 9)
    data = dataset(white, mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.3))
    ((turned, _),) = ood.Turned([(white, data.test_y)], 45, data)
    torch.testing.assert_close(turned[0, :, 0, 0], torch.tensor([-5.0, -2.0, -1.0]))  # 0, normalised


def test_the_layout_of_a_batch_is_kept():
    x = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    data = dataset(x)
    ((turned, _),) = ood.Turned([(x, data.test_y)], 30, data)
    assert turned.is_contiguous(memory_format=torch.channels_last)


def test_by_angle_finds_the_angle_that_a_network_knows():
    x = torch.zeros(4, 1, 5, 5)
    x[:2, 0, 0], x[2:, 0, 4] = 1.0, 1.0  # a bar above, a bar below
    y = torch.tensor([0, 0, 1, 1])
    model = nn.Sequential(nn.Flatten(), nn.Linear(25, 2, bias=False))
    model[1].weight.data = torch.stack([x[0].flatten(), x[2].flatten()])
    rows = ood.by_angle(model, [(x, y)], dataset(x), [0, 180], samples=2)
    assert [row["accuracy"] for row in rows] == [100.0, 0.0]
    assert rows[0]["entropy"] == pytest.approx(rows[1]["entropy"]) and rows[0]["mutual_information"] < 1e-6


def test_points_cannot_be_turned():
    with pytest.raises(ValueError, match="points"):
        ood.by_angle(nn.Identity(), [], load("toy"), [0], samples=1)


def test_outliers_are_told_by_their_entropy():
    sure, unsure = torch.tensor([[0.99, 0.01]] * 5).log(), torch.tensor([[0.5, 0.5]] * 4).log()
    inside = Predictions(torch.zeros(5).long(), sure, sure, torch.zeros(5), torch.zeros(5))
    outside = Predictions(torch.zeros(4).long(), unsure, unsure, torch.zeros(4), torch.zeros(4))
    assert ood.against(inside, outside) == {"auroc_entropy": 1.0, "auroc_mutual_information": 1.0}
    assert ood.against(inside, inside)["auroc_entropy"] == 0.5


def test_images_take_the_shape_of_the_networks_inputs():
    digits = load("digits")
    colour = dataset(torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8))
    grey = ood.as_inputs_of(digits, colour)
    assert grey.shape == (6, 1, 28, 28) and grey.dtype == torch.uint8
    assert abs(grey.float().mean() - colour.test_x.float().mean()) < 2
    assert ood.as_inputs_of(colour, digits).shape == (len(digits.test_y), 3, 32, 32)
    assert torch.equal(ood.as_inputs_of(digits, digits), digits.test_x)
    with pytest.raises(ValueError, match="points"):
        ood.as_inputs_of(digits, load("toy"))
