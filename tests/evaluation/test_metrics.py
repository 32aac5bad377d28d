"""Each number against a case worked out by hand."""

import math

import numpy as np
import pytest
import torch

from varnet.evaluation import metrics
from varnet.evaluation.predictions import Predictions

PROBS = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
Y = torch.tensor([0, 1, 1, 1])  # the second is wrong
LOGS = PROBS.log()


def test_accuracy_nll_brier():
    assert metrics.accuracy(LOGS, Y) == 75.0
    assert metrics.nll(LOGS, Y) == pytest.approx(-np.log([0.9, 0.4, 0.7, 0.8]).mean())
    assert metrics.brier(LOGS, Y) == pytest.approx(2 * np.square([0.1, 0.6, 0.3, 0.2]).mean())


def test_calibration_error_by_hand():
    # Bins of width 0.25 hold confidences (0.6, 0.7) with accuracy 1/2 and (0.9, 0.8) with accuracy 1.
    expected = 0.5 * abs(0.65 - 0.5) + 0.5 * abs(0.85 - 1)
    assert metrics.ece(LOGS, Y, bins=4) == pytest.approx(expected)
    rows = metrics.reliability(LOGS, Y, bins=4)
    assert [(r["low"], r["count"], r["accuracy"]) for r in rows] == [(0.5, 2, 50.0), (0.75, 2, 100.0)]
    assert [r["confidence"] for r in rows] == pytest.approx([0.65, 0.85])


def test_the_diagram_and_the_calibration_error_agree():
    torch.manual_seed(0)
    logs, y = torch.randn(500, 5).log_softmax(1), torch.randint(5, (500,))
    rows = metrics.reliability(logs, y)
    from_rows = sum(r["count"] / 500 * abs(r["confidence"] - r["accuracy"] / 100) for r in rows)
    assert metrics.ece(logs, y) == pytest.approx(from_rows, abs=1e-6)
    certain = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).log()
    assert metrics.ece(certain, torch.tensor([0, 1])) == 0.0
    assert metrics.reliability(certain, torch.tensor([0, 1]))[0]["count"] == 2


def test_entropies():
    sure, unsure = torch.tensor([[1.0, 0.0]]).log(), torch.tensor([[0.5, 0.5]]).log()
    assert float(metrics.entropy(sure)) == 0.0
    assert float(metrics.entropy(unsure)) == pytest.approx(math.log(2))
    # Two sure samples that contradict each other: all uncertainty is about the weights.
    one = Predictions(torch.tensor([0]), unsure, sure, torch.zeros(1), torch.zeros(1))
    assert float(metrics.mutual_information(one)) == pytest.approx(math.log(2))
    # Samples that agree: none is.
    same = Predictions(torch.tensor([0]), unsure, unsure, *2 * [metrics.entropy(unsure)])
    assert float(metrics.mutual_information(same)) == 0.0


def test_accuracy_by_class():
    logs = torch.cat([LOGS, torch.full((4, 1), -50.0)], 1)
    assert metrics.accuracy_by_class(logs, Y) == [100.0, pytest.approx(200 / 3), None]


def test_bootstrap_interval_is_that_of_resampled_sets():
    torch.manual_seed(0)
    y = torch.zeros(200, dtype=torch.long)
    logs = torch.where(torch.arange(200)[:, None] < 180, LOGS[:1], LOGS[2:3])
    low, high = metrics.bootstrap_interval(logs, y)
    right = (logs.argmax(1) == y).double()
    means = torch.stack([right[torch.randint(200, (200,))].mean() for _ in range(4000)])
    expected = 100 * means.quantile(torch.tensor([0.025, 0.975], dtype=torch.double))
    assert [low, high] == pytest.approx(expected.tolist(), abs=0.75) and low < 90 < high  # 0.5 is one object
    assert metrics.bootstrap_interval(logs, y) == (low, high)


def test_auroc():
    inside, outside = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.25, 0.4])
    assert metrics.auroc(inside, outside) == pytest.approx(5 / 6)
    assert metrics.auroc(torch.zeros(3), torch.zeros(4)) == pytest.approx(0.5)
    assert metrics.auroc(100 * inside + 1000, 100 * outside + 1000) == pytest.approx(5 / 6)


def test_a_number_of_nan_is_nan():
    """argmax takes NaN for the largest: label 0 would be right everywhere."""
    logs, y = torch.full((4, 3), torch.nan), torch.zeros(4, dtype=torch.long)
    found = metrics.summary(Predictions(y, logs, logs, logs[:, 0], logs[:, 0]))
    low, high = found.pop("accuracy_interval")
    first, *others = found.pop("accuracy_by_class")
    assert all(math.isnan(value) for value in (low, high, first, *found.values())) and others == [None, None]


def test_one_nan_is_not_averaged_away():
    logs, y = LOGS.clone(), Y.clone()
    logs[2] = torch.nan
    numbers = (metrics.accuracy, metrics.nll, metrics.brier, metrics.ece)
    assert all(math.isnan(number(logs, y)) for number in numbers)
    whole, part = metrics.accuracy_by_class(logs, y)
    assert whole == 100.0 and math.isnan(part)
    with pytest.raises(ValueError, match="the network predicts NaN"):
        metrics.reliability(logs, y)


def test_a_class_that_is_impossible_is_no_nan():
    logs = torch.tensor([[0.0, -torch.inf], [0.0, -torch.inf]])
    assert metrics.accuracy(logs, torch.tensor([0, 1])) == 50.0 and metrics.nll(logs, torch.tensor([0, 1])) == math.inf


def test_auroc_of_nan_and_of_nothing():
    some = torch.tensor([0.1, 0.2])
    assert math.isnan(metrics.auroc(some, torch.tensor([0.3, torch.nan])))
    assert math.isnan(metrics.auroc(torch.tensor([torch.nan]), some))
    for inside, outside in ((some, some[:0]), (some[:0], some), (some[:0], some[:0])):
        with pytest.raises(ValueError, match="give at least one of each"):
            metrics.auroc(inside, outside)
