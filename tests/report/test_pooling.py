"""Runs of two precisions in one row: only once a test of equivalence shows them alike, and the row says so."""

import math

import numpy as np
import pytest

from varnet.report import Published, markdown, rows_of
from varnet.report.verdict import LEVEL, alike

LINES = [Published("layer", "layer", "acc_k", 99.2), Published("layer", "layer", "kl", 1.7),
         Published("neuron", "neuron", "acc_k", 99.2)]  # fmt: skip
RUNS = 2000  # of a simulation


def some(precision, values, network="lenet5", **more):
    """Runs of seeds 0, 1, ..."""
    common = {"precision": precision, "network": network, "epochs": 200, "commit": "0123456789ab", **more}
    return [{"seed": seed, "acc_k": value, "kl": 1.7, **common} for seed, value in enumerate(values)]


def table(**found):
    return rows_of(LINES, lambda name: found.get(name, []))


def test_a_column_that_shows_them_alike_speaks_for_the_others():
    layer = some("fp32", [99.20, 99.22, 99.24]) + some("bf16", [99.21, 99.23, 99.25, 99.27])
    rows = table(layer=layer, neuron=some("fp32", [99.0]) + [{**run, "seed": 1} for run in some("bf16", [99.4])])
    assert [(row.row, row.n, row.precision) for row in rows] == [
        ("layer", 4, "fp32 + bf16"), ("layer", 4, "fp32 + bf16"), ("neuron", 2, "fp32 + bf16")
    ]  # fmt: skip
    assert rows[0].seeds == [0, 1, 2, 3] and rows[0].mean == pytest.approx((99.20 + 99.22 + 99.24 + 99.27) / 4), (
        "a seed of both counts once"
    )
    assert rows[2].verdict == "not shown" and rows[2].mean == pytest.approx(99.2)
    assert "| full, 200 epochs, 3 fp32 + 1 bf16, alike in layer |" in markdown(rows)
    assert rows[2].command == (
        "python train.py experiment=neuron seed=0 && python train.py experiment=neuron precision=bf16 seed=1"
    )


@pytest.mark.parametrize(
    "bf16",
    [
        some("bf16", [99.21]),  # one run shows nothing
        some("bf16", [98.21, 98.22, 98.23]),  # another value
        some("bf16", [98.0, 99.2, 100.0]),  # too wide
        some("bf16", [99.21, 99.22, 99.23], kl=4.0),  # one metric is not alike
        some("bf16", [99.21, 99.22, 99.23], network="vgg"),  # another network
    ],
)
def test_what_is_not_shown_is_not_pooled(bf16):
    fp32 = some("fp32", [99.20, 99.22, 99.24])
    rows = table(layer=fp32 + bf16)
    assert [row.precision for row in rows] == ["fp32", "bf16"] * 2 and not any(row.more for row in rows)


def test_one_column_that_shows_the_opposite_is_enough():
    same = some("fp32", [99.20, 99.22, 99.24]) + some("bf16", [99.21, 99.23, 99.25, 99.27])
    other = some("fp32", [99.20, 99.22, 99.24]) + some("bf16", [97.21, 97.23, 97.25])
    assert {row.precision for row in table(layer=same, neuron=other)} == {"fp32", "bf16"}
    assert {row.precision for row in table(layer=same)} == {"fp32 + bf16"}


def shares(off: float, std: float, n: int) -> dict[bool | None, float]:
    """How often two samples whose means lie `off` apart are called alike (True) or different (False)."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(99.4, std, (RUNS, n)), rng.normal(99.4 + off, std, (RUNS, n))
    found = [alike("acc_k", list(a), list(b)) for a, b in zip(first, second, strict=True)]
    return {answer: found.count(answer) / RUNS for answer in (True, False, None)}


def test_size_and_power():
    slack = 5 * math.sqrt(LEVEL * (1 - LEVEL) / RUNS)
    for off in (0.3, -0.3):
        found = shares(off, 0.05, 3)
        assert found[True] <= LEVEL + slack and found[False] <= LEVEL + slack
    assert shares(0.0, 0.05, 3)[True] > 0.9 and shares(1.0, 0.05, 3)[False] > 0.9


def test_the_sampling_error_stands_apart_from_the_spread():
    """Two runs whose noise leaves 3 and 4 nats: sqrt(9 + 16) / 2 in their mean."""
    line = Published("layer", "layer", "elbo", -17.4)
    runs = [{"seed": i, "elbo": -17.0 - i, "elbo_error": 3.0 + i, "elbo_samples": 10 + 90 * i, "epochs": 200}
            for i in range(2)]  # fmt: skip
    (row,) = rows_of([line], lambda name: runs if name == "layer" else [])
    assert row.sampling_error == 2.5 and row.noise_samples == "10, 100" and row.std == pytest.approx(0.5**0.5)
    assert "| -17.50 ± 0.71 (noise 2.50) |" in markdown([row])
    assert row.as_dict()["sampling_error"] == 2.5
    (exact,) = rows_of([line], lambda name: [{**runs[0], "elbo_error": 0.0}] if name == "layer" else [])
    assert exact.sampling_error is None and "sampling_error" not in exact.as_dict()
