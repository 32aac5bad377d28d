"""Learning rate and beta at the steps that matter."""

import pytest

from varnet.train.schedule import Schedule


def make(**options) -> Schedule:
    return Schedule(**{"steps_per_epoch": 10, "epochs": 20, "lr": 1e-3, **options})


def test_linear_decay_ends_at_0():
    schedule = make()
    assert schedule.steps == 200
    assert [schedule.lr_at(s) for s in (0, 100, 200)] == pytest.approx([1e-3, 5e-4, 0])


def test_cosine_and_constant():
    assert [make(decay="cosine").lr_at(s) for s in (0, 100, 200)] == pytest.approx([1e-3, 5e-4, 0])
    assert make(decay="constant").lr_at(199) == 1e-3


def test_warmup():
    schedule = make(decay="constant", warmup=2)
    assert [schedule.lr_at(s) for s in (0, 9, 19, 50)] == pytest.approx([5e-5, 5e-4, 1e-3, 1e-3])


def test_beta_is_constant_by_default():
    assert [make(beta=16.0).beta_at(s) for s in (0, 7, 199)] == [16.0, 16.0, 16.0]


def test_sparse_vd_beta():
    schedule = make(beta_from=5, beta_until=20)
    assert [schedule.beta_at(s) for s in (0, 50, 125, 200)] == pytest.approx([0, 0, 0.5, 1.0])


def test_linear_warmup_of_beta():
    assert [make(beta_until=4, beta=2.0).beta_at(s) for s in (0, 20, 40, 60)] == pytest.approx([0, 1.0, 2.0, 2.0])


def test_a_decay_that_begins_later():
    """Constant for 10 of 20 epochs of 10 steps, then linear: half way down at step 150."""
    schedule = make(decay_from=10)
    assert [schedule.lr_at(s) for s in (0, 99, 100, 150, 200)] == pytest.approx([1e-3, 1e-3, 1e-3, 5e-4, 0])
    assert make(decay_from=10, decay="cosine").lr_at(150) == pytest.approx(5e-4)
    assert [make(decay_from=0).lr_at(s) for s in range(200)] == [1e-3 * (1 - s / 200) for s in range(200)]
