"""Verdicts: margins, the interval, and the size and power of the tests on made-up data."""

import math

import numpy as np
import pytest

from varnet.report.verdict import LEVEL, interval, margins, verdict

RUNS = 4000  # of a simulation
SLACK = 5 * math.sqrt(LEVEL * (1 - LEVEL) / RUNS)  # five standard errors of a share near the level


@pytest.mark.parametrize(
    ("metric", "published", "expected"),
    [
        ("acc_k", 99.4, (99.1, 99.7)),
        ("acc_k", 93.4, (92.9, 93.9)),
        ("acc_det", 11.3, (8.8, 13.8)),
        ("error", 1.92, (1.62, 2.22)),
        ("error", 5.0, (4.5, 5.5)),
        ("sparsity.conv1", 67.0, (66.5, 67.5)),
        ("elbo", -6.0, (-9.0, -4.0)),
        ("kl", 0.0, (0.0, 0.0)),
        ("compression", 60.0, (40.0, 90.0)),
        ("log_alpha.dense1", 6.0, None),
    ],
)
def test_margins(metric, published, expected):
    found = margins(metric, published)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_the_interval_is_students():
    """t_0.95 with two degrees of freedom is 2.919986."""
    assert interval(10.0, 3.0, 3) == pytest.approx((10 - 2.919986 * math.sqrt(3), 10 + 2.919986 * math.sqrt(3)))


@pytest.mark.parametrize(
    ("mean", "std", "n", "expected"),
    [
        (99.4, 0.05, 3, "reproduced"),
        (99.4, 0.5, 3, "not shown"),
        (98.0, 0.1, 3, "contradicted"),
        (98.9, 0.3, 3, "not shown"),
        (99.4, None, 1, "not shown"),
        (None, None, 0, None),
    ],
)
def test_verdicts(mean, std, n, expected):
    assert verdict("acc_k", 99.4, mean, std, n) == expected


def test_seeds_that_all_agree_need_no_interval():
    assert verdict("kl", 0.0, 0.0, 0.0, 5) == "reproduced"
    assert verdict("acc_det", 50.0, 9.8, 0.0, 5) == "contradicted"
    assert verdict("acc_k", None, 9.8, 0.0, 5) is None


def shares(off: float, std: float, n: int) -> dict[str, float]:
    """How often each verdict comes of n seeds around a true value that lies `off` beside the published one."""
    values = np.random.default_rng(0).normal(99.4 + off, std, (RUNS, n))
    found = [
        verdict("acc_k", 99.4, mean, spread, n)
        for mean, spread in zip(values.mean(1), values.std(1, ddof=1), strict=True)
    ]
    return {name: found.count(name) / RUNS for name in ("reproduced", "contradicted", "not shown")}


@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("std", [0.02, 0.2])
def test_a_value_at_the_margin_is_rarely_called_either(n, std):
    """The size: at most 5 % each way where the truth is just at the margin."""
    for off in (0.3, -0.3):
        found = shares(off, std, n)
        assert found["reproduced"] <= LEVEL + SLACK and found["contradicted"] <= LEVEL + SLACK


def test_the_power():
    """Three seeds with a spread of a twentieth of a point show what is the same, and what is a point away."""
    assert shares(0.0, 0.05, 3)["reproduced"] > 0.9 and shares(1.0, 0.05, 3)["contradicted"] > 0.9
    assert shares(0.0, 0.5, 3)["reproduced"] < 0.1  # too few seeds for so much noise say nothing
