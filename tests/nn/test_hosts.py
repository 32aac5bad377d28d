"""Recurrent layers and attention, whose weights are random parts of the layer of torch."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from tests.statistics_helper import assert_mean, assert_variance
from varnet import collapse, kl, predicting, resample, variational
from varnet.evaluation.predictions import weight_samples
from varnet.evaluation.prefix import Sampler
from varnet.nn.layers import layers_of


class First(nn.Module):
    """The first output of a layer that has several, and one input for all that it takes."""

    def __init__(self, layer: nn.Module, inputs: int = 1):
        super().__init__()
        self.layer, self.inputs = layer, inputs

    def forward(self, x: Tensor) -> Tensor:
        out = self.layer(*[x] * self.inputs)
        return out[0] if isinstance(out, tuple) else out


CASES = {  # name -> (network, shape of an object, number of random tensors)
    "lstm": (lambda: First(nn.LSTM(4, 5, 2, batch_first=True)), (6, 4), 4),
    "bidirectional lstm": (lambda: First(nn.LSTM(4, 5, batch_first=True, bidirectional=True, proj_size=2)), (3, 4), 6),
    "gru": (lambda: First(nn.GRU(4, 5, batch_first=True, bias=False)), (6, 4), 2),
    "rnn": (lambda: First(nn.RNN(4, 5, nonlinearity="relu", batch_first=True)), (6, 4), 2),
    "lstm cell": (lambda: First(nn.LSTMCell(4, 5)), (4,), 2),
    "gru cell": (lambda: First(nn.GRUCell(4, 5)), (4,), 2),
    "rnn cell": (lambda: First(nn.RNNCell(4, 5)), (4,), 2),
    "attention": (lambda: First(nn.MultiheadAttention(4, 2, batch_first=True), 3), (6, 4), 2),
    "attention of three": (lambda: First(nn.MultiheadAttention(4, 2, kdim=4, vdim=4, add_bias_kv=True), 3), (6, 4), 2),
}
names = pytest.mark.parametrize("name", CASES)
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@pytest.mark.parametrize("random_bias", [False, True])
@names
def test_deterministic_mode_is_the_layer_of_torch_bit_for_bit(name, random_bias):
    make, shape, count = CASES[name]
    plain, x = make(), torch.randn(3, *shape)
    for training in (False, True):
        expected = plain.train(training)(x).detach()
        model = variational(copy.deepcopy(plain), log_alpha=-1.0, random_bias=random_bias)
        assert len(layers_of(model)) >= count if random_bias else len(layers_of(model)) == count
        with predicting(model, "deterministic"):
            assert torch.equal(model.train(training)(x), expected)
        model.load_state_dict(plain.state_dict())
        with predicting(model, "deterministic"):
            assert torch.equal(model.train(training)(x), expected)


@names
def test_all_that_a_network_is_used_for(name):
    make, shape, _ = CASES[name]
    model, x = variational(make(), param="neuron", log_alpha=-1.0, random_bias=True), torch.randn(3, *shape)
    (model(x).square().sum() + kl(model)).backward()
    for key, p in model.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all(), key
    twin = variational(make(), param="neuron", log_alpha=1.0, random_bias=True)
    twin.load_state_dict(model.state_dict())
    outs = []
    for each in (model, twin, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.manual_seed(3)
        outs.append(each(x))
    assert all(torch.equal(outs[0], out) for out in outs[1:])
    assert not torch.equal(model(x), model(x))
    values = {key: p.detach() for key, p in model.named_parameters()}
    assert torch.func.functional_call(model, values, (x,)).shape == outs[0].shape
    with predicting(model, "weights"):
        first = model(x)
        assert torch.equal(model(x), first)
        resample(model)
        assert not torch.equal(model(x), first)
    collapse(model, threshold=-3)
    assert all(layer.param.zero_mean for layer in layers_of(model).values())
    assert model.double()(x.double()).dtype == torch.double


@pytest.mark.parametrize("name", ["lstm", "gru", "attention"])
def test_one_draw_holds_over_a_sequence_and_a_batch(name):
    """Objects that are the same give the same output; two halves of a sequence are as one in the state `weights`."""
    make, shape, _ = CASES[name]
    model, x = variational(make(), log_alpha=0.0), torch.randn(1, *shape)
    with torch.no_grad():
        out = model(x.expand(4, *shape))
        torch.testing.assert_close(out, out[:1].expand_as(out))
        if name == "attention":
            return
        with predicting(model, "weights"):
            whole, last = model.layer(x)
            first, state = model.layer(x[:, :3])
            second, end = model.layer(x[:, 3:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    torch.testing.assert_close(end, last)


@pytest.mark.parametrize("name", ["lstm", "attention"])
def test_a_draw_is_that_of_the_plain_layer_with_weights_from_q(name):
    """The distribution of the output against plain layers whose weights are drawn by hand."""
    make, shape, _ = CASES[name]
    plain, x = make(), torch.randn(1, *shape)
    model = variational(copy.deepcopy(plain), param="additive", log_sigma=-1.5)
    with torch.no_grad():
        samples = torch.stack([model(x)[0, -1] for _ in range(300)])
        weights = [p for key, p in plain.named_parameters() if "weight" in key]
        means, drawn = [w.clone() for w in weights], []
        for _ in range(300):
            for weight, mean in zip(weights, means, strict=True):
                weight.copy_(mean + torch.randn_like(mean) * torch.tensor(-1.5).exp())
            drawn.append(plain.train()(x)[0, -1])
    both = torch.stack(drawn)
    error = (samples.var(0) / 300 + both.var(0) / 300).sqrt()
    assert ((samples.mean(0) - both.mean(0)).abs() < 5 * error).all()
    squares, others = ((s - s.mean(0)).square() for s in (samples, both))
    error = (squares.var(0) / 300 + others.var(0) / 300).sqrt()
    assert ((squares.mean(0) - others.mean(0)).abs() < 5 * error).all()


def test_a_cell_reparameterizes_locally():
    """Every object has noise of its own, of the moments that the two products have."""
    cell = variational(nn.RNNCell(4, 3, nonlinearity="relu"), param="neuron", log_alpha=-1.0)
    cell.bias_ih.data.fill_(100.0)  # the rectifier passes everything
    x, h = torch.randn(1, 4), torch.randn(1, 3)
    parts = cell.parts()
    with torch.no_grad():
        samples = cell(x.expand(5000, 4), h.expand(5000, 3))
        mean = x @ parts["weight_ih"].mu.T + h @ parts["weight_hh"].mu.T + cell.bias_ih + cell.bias_hh
        variances = [part.posterior().variance for part in parts.values()]
        variance = x.square() @ variances[0].T + h.square() @ variances[1].T
    assert_mean(samples.double(), mean[0])
    assert_variance(samples.double() - 100, variance[0])


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_a_cell_without_noise_is_torchs(kind):
    plain = kind(4, 3)
    x, h = torch.randn(2, 4), torch.randn(2, 3)
    state = (h, torch.randn(2, 3)) if kind is nn.LSTMCell else h
    expected = plain(x, state)
    cell = variational(plain, log_alpha=-60.0, clip=None)
    torch.testing.assert_close(cell(x, state), expected)


def test_a_packed_sequence():
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    plain = nn.LSTM(4, 5, batch_first=True)
    packed = pack_padded_sequence(torch.randn(3, 6, 4), torch.tensor([6, 4, 2]), batch_first=True)
    expected, _ = pad_packed_sequence(plain(packed)[0], batch_first=True)
    model = variational(plain)
    with predicting(model, "deterministic"):
        assert torch.equal(pad_packed_sequence(model(packed)[0], batch_first=True)[0], expected)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm, self.head = nn.Embedding(9, 4), nn.LSTM(4, 5, 2, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(self.words(x))[0][:, -1])


@pytest.mark.parametrize("layers", ["all", "lstm", "head"])
def test_a_classifier_of_sequences_trains_and_shares_its_prefix(layers):
    model, x, y = Classifier(), torch.randint(9, (8, 6)), torch.randint(3, (8,))
    before = model(x).detach()
    variational(model, layers, log_alpha=-3.0)
    with predicting(model, "deterministic"):
        assert torch.equal(model(x), before)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    losses = []
    for _ in range(15):
        loss = nn.functional.cross_entropy(model(x), y) + 1e-4 * kl(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[-3:]) < losses[0]
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        torch.manual_seed(2)
        fast = list(sampler(x, 3))
        assert sampler.why is None
        torch.manual_seed(2)
        torch.testing.assert_close(fast, [model(x) for _ in range(3)])
    assert weight_samples(model, [(x, y)], draws=2).accuracy.shape == (2,)


def test_an_encoder_draws_all_its_projections():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)
    x = torch.randn(2, 3, 8)
    expected = encoder.train()(x).detach()
    variational(encoder, log_alpha=-1.0)
    assert len(layers_of(encoder)) == 2 * 4
    with predicting(encoder, "deterministic"):
        torch.testing.assert_close(encoder(x), expected)
    encoder(x).sum().backward()
    assert all(layer.mu.grad is not None for layer in layers_of(encoder).values())
