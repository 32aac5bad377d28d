"""Masks of dropout that are held in the state `weights`, as a draw of the weights is."""

import copy
import pickle

import pytest
import torch
from torch import nn

from tests.statistics_helper import assert_mean
from varnet import predicting, resample, variational
from varnet.evaluation.predictions import weight_samples
from varnet.evaluation.prefix import Sampler

KINDS = {  # kind -> shape of an object, shape of its mask
    nn.Dropout: ((4, 3), (4, 3)),
    nn.Dropout1d: ((4, 3), (4, 1)),
    nn.Dropout2d: ((4, 3, 2), (4, 1, 1)),
    nn.Dropout3d: ((4, 3, 2, 2), (4, 1, 1, 1)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_mask_for_all_objects_until_resample(kind):
    shape, of_mask = KINDS[kind]
    model = variational(nn.Sequential(kind(0.4), nn.Identity()), "none", hold_dropout=True)
    x = torch.ones(5, *shape)
    with predicting(model, "weights"):
        out = model(x)
        assert torch.equal(out, out[:1].expand_as(out)) and torch.equal(model(x[:2]), out[:2])
        assert torch.equal(out[0], out[0][tuple(slice(n) for n in of_mask)].expand(shape))
        masks = torch.stack([(resample(model), model(x[:1])[0])[1] for _ in range(800)])
    assert {0.0, float(torch.tensor(1 / 0.6))} == set(masks.unique().tolist())
    assert_mean(masks, 1.0)
    with predicting(model, "sample"):
        out = model(x)
        assert not torch.equal(out, out[:1].expand_as(out))
    with predicting(model, "deterministic"):
        assert torch.equal(model(x), x)


def test_a_mask_is_a_draw_of_the_whole_network():
    """A test set sees one mask; the same seed draws the same one; copies and pickles have it, too."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    variational(model, "3", log_alpha=-1.0, hold_dropout=True)
    x = torch.randn(4, 6)
    with torch.no_grad(), predicting(model, "weights"):
        first = model(x)
        torch.testing.assert_close(torch.cat([model(x[:1]), model(x[1:])]), first)
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(twin(x), first)
        sampler = Sampler(model)
        fast = []
        for out in sampler(x, 3):
            fast.append(out)
            resample(model)
        assert sampler.why is None and not torch.equal(fast[0], fast[1])
        assert torch.equal(fast[0], first)
    y = torch.zeros(4, dtype=torch.long)
    together, apart = (weight_samples(model, batches, 3).average.log_probs for batches in (
        [(x, y)], [(x[:1], y[:1]), (x[1:], y[1:])]
    ))  # fmt: skip
    torch.testing.assert_close(together, apart)


def test_dropout_is_torchs_unless_it_is_asked_for():
    model = variational(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))
    assert type(model[1]) is nn.Dropout
    with predicting(model, "weights"):
        assert not torch.equal(model[1](torch.ones(999)), model[1](torch.ones(999)))
