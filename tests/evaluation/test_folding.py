"""Several samples in one batch: the same in distribution as one after the other, or not done at all."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.statistics_helper import assert_same_mean
from varnet import predicting
from varnet.evaluation.prefix import Sampler
from varnet.nn.layers import Linear

ROWS = 4


def dense(**options) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), Linear(8, 5, **options), nn.Tanh(), nn.Linear(5, 3))


class After(nn.Module):
    """A noisy network whose output goes through a function of the whole batch."""

    def __init__(self, change: Callable[[Tensor], Tensor]):
        super().__init__()
        self.model, self.change = dense(log_alpha=1.0), change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(self.model(x))


class Table(nn.Module):
    """Distances to as many prototypes as a batch has rows; nothing of them is random."""

    def __init__(self):
        super().__init__()
        self.model, self.table = dense(log_alpha=1.0), nn.Parameter(torch.randn(ROWS, 3))

    def forward(self, x: Tensor) -> Tensor:
        table = torch.tanh(self.table)
        return -(self.model(x)[:, None] - table).square().sum(2)


class SizeOfInput(nn.Module):
    """Asks the input, not what came of it, for the number of rows."""

    def __init__(self):
        super().__init__()
        self.model = dense(log_alpha=1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).view(x.shape[0], 3)


class DrawnTable(nn.Module):
    """Noise on weights that are computed, not on objects: one draw for a batch."""

    def __init__(self):
        super().__init__()
        self.first, self.table, self.layer = (
            nn.Linear(6, 8),
            nn.Parameter(torch.randn(3, 6)),
            Linear(6, 8, log_alpha=1.0),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) @ self.layer(torch.tanh(self.table)).t()


class TimeFirst(nn.Module):
    """Sequences with the batch in the second place, as long as a batch has rows."""

    def __init__(self):
        super().__init__()
        self.model = dense(log_alpha=1.0)

    def forward(self, x: Tensor) -> Tensor:  # (rows, time, 6)
        return self.model(x.transpose(0, 1)).mean(0)


def by_group(x: Tensor) -> Tensor:
    """Three rows that follow each other know of each other."""
    return (x.unflatten(0, (-1, 3)) - x.unflatten(0, (-1, 3)).mean(1, keepdim=True)).flatten(0, 1)


MIXED = {
    "mean": lambda x: x - x.mean(0),
    "softmax": lambda x: x.softmax(0),
    "largest": lambda x: x / x.abs().amax(),
    "neighbour": lambda x: x + x.roll(1, 0),
    "those before": lambda x: x.cumsum(0),
    "groups": by_group,
    "dropped": lambda x: x[1:],
    "normed": lambda x: nn.functional.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize(
    ("model", "why"),
    [
        *((After(change), "fails on" if name == "groups" else "rows") for name, change in MIXED.items()),
        (SizeOfInput(), "no batch of numbers"),
        (DrawnTable(), "may share"),
        (dense(param="zero_mean", noise="bernoulli"), "may share"),
    ],
    ids=[*MIXED, "size of the input", "drawn table", "one draw of the weights"],
)
def test_samples_are_drawn_one_after_the_other_where_rows_are_not_on_their_own(model, why):
    x = torch.randn(ROWS if not isinstance(model, After) or model.change is not by_group else 6, 6)
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model, fold=64)
        torch.manual_seed(1)
        fast = list(sampler(x, 5))
        torch.manual_seed(1)
        slow = [model(x) for _ in range(5)]
    assert all(torch.equal(a, b) for a, b in zip(fast, slow, strict=True))
    assert why in (sampler.why if sampler.cut is None else sampler.cut.unfolded)


def test_time_first_is_not_folded():
    model, x = TimeFirst(), torch.randn(ROWS, ROWS, 6)
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model, fold=64)
        assert [len(out) for out in sampler(x, 5)] == [ROWS] * 5 and sampler.cut.batched is None


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), *dense(log_alpha=1.0)[1:]),
        Table(),
        nn.Sequential(nn.Linear(6, 4), nn.Unflatten(1, (1, 2, 2)), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(4, 3)),
    ],
    ids=["dropout", "table", "dropout of channels"],
)
@pytest.mark.parametrize("rows", [1, 2, ROWS])
def test_samples_folded_into_the_batch_have_the_same_distribution(model, rows):
    x = torch.randn(rows, 6)
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model, fold=64)
        folded = torch.stack(list(sampler(x, 2001))).softmax(2)
        slow = torch.stack([model(x) for _ in range(2000)]).softmax(2)
    assert sampler.cut.batched and len(folded) == 2001, sampler.cut.unfolded
    assert_same_mean(folded, slow)
    assert_same_mean(folded.square(), slow.square())
    assert_same_mean(folded[:-1, 0] * folded[1:, 0], slow[:-1, 0] * slow[1:, 0])  # neighbours are independent
    assert_same_mean(folded[:-1, 0] * folded[1:, -1], slow[:-1, 0] * slow[1:, -1])


def test_rows_stay_within_the_limit():
    model, seen = dense(log_alpha=1.0), []
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model, fold=10)
        list(sampler(torch.randn(4, 6), 1))
        model[4].register_forward_hook(lambda _m, inputs, _out: seen.append(len(inputs[0])))
        assert len(list(sampler(torch.randn(4, 6), 5))) == 5
    assert seen == [8, 8, 4]
