"""What the layer tests of peers (torch-uncertainty, BLiTZ) look at, restated: shapes with and without a bias, padding,
frozen layers, samples of the weights, the divergence, recurrent layers with their states, pickles."""

import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import varnet
from varnet import kl, predicting, resample, set_mode

SHAPES = {  # kind -> (arguments, shape of an input, shape of the output)
    "linear": (lambda **o: varnet.Linear(10, 2, **o), (5, 10), (5, 2)),
    "conv1d": (lambda **o: varnet.Conv1d(5, 2, kernel_size=1, **o), (3, 5, 10), (3, 2, 10)),
    "one row": (lambda **o: varnet.Conv1d(5, 2, kernel_size=1, **o), (5, 10), (2, 10)),
    "conv2d": (lambda **o: varnet.Conv2d(10, 2, kernel_size=1, **o), (5, 10, 3, 3), (5, 2, 3, 3)),
    "conv3d": (lambda **o: varnet.Conv3d(10, 2, kernel_size=1, **o), (1, 10, 3, 3, 3), (1, 2, 3, 3, 3)),
    "transposed2d": (lambda **o: varnet.ConvTranspose2d(3, 4, 2, stride=2, **o), (2, 3, 4, 4), (2, 4, 8, 8)),
}


class Peer:
    """A layer as the tests of peers speak to it."""

    def __init__(self, layer: nn.Module):
        self.layer = layer

    def __call__(self, *inputs: Tensor) -> Tensor:
        with torch.no_grad():
            out = self.layer(*inputs)
        return out[0] if isinstance(out, tuple) else out

    def freeze(self) -> None:
        set_mode(self.layer, "deterministic")

    def unfreeze(self) -> None:
        set_mode(self.layer, "sample")

    def sample(self) -> Tensor:
        return self.layer.weight

    def divergence(self) -> Tensor:
        return kl(self.layer)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", SHAPES)
def test_shape_sample_freeze_and_divergence(kind, bias):
    make, given, wanted = SHAPES[kind]
    peer, x = Peer(make(bias=bias, log_alpha=-1.0)), torch.rand(given)
    assert peer(x).shape == wanted and not torch.equal(peer(x), peer(x))
    assert not torch.equal(peer.sample(), peer.sample()) and f"bias={bias}" in repr(peer.layer)
    peer.freeze()
    assert torch.equal(peer(x), peer(x)) and torch.equal(peer.sample(), peer.sample())
    peer.unfreeze()
    assert not torch.equal(peer(x), peer(x))
    assert peer.divergence().isfinite() and peer.divergence() > 0
    again = Peer(pickle.loads(pickle.dumps(peer.layer)))
    again.freeze(), peer.freeze()
    assert torch.equal(again(x), peer(x))


@pytest.mark.parametrize("make", [varnet.Conv1d, varnet.Conv2d, varnet.Conv3d])
def test_padding(make):
    dims = int(make.__name__[4])
    for mode in ("zeros", "reflect", "replicate", "circular"):
        layer = make(3, 2, kernel_size=3, padding=1, padding_mode=mode)
        assert layer(torch.rand(2, 3, *[4] * dims)).shape == (2, 2, *[4] * dims)
    with pytest.raises(ValueError):
        make(3, 2, kernel_size=1, padding_mode="random")


def test_a_layer_without_noise_is_the_plain_one():
    """What peers call sigma_init=0."""
    plain, x = nn.Conv2d(3, 4, 3), torch.rand(2, 3, 5, 5)
    expected = plain(x)
    layer = varnet.variational(plain, param="additive", log_sigma=-40.0)
    torch.testing.assert_close(layer(x), expected)


def recurrent(kind: type[nn.Module], **options) -> Callable[..., nn.Module]:
    return varnet.variational(kind(3, 5, batch_first=True, **options), log_alpha=-1.0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers(kind, bias):
    """Shapes of output and state, a state that is given, frozen and free, held over a sequence and drawn anew."""
    layer, x = recurrent(kind, bias=bias), torch.rand(2, 4, 3)
    out, state = layer(x)
    assert out.shape == (2, 4, 5)
    hidden = state[0] if kind is nn.LSTM else state
    assert hidden.shape == (1, 2, 5)
    assert layer(x, state)[0].shape == (2, 4, 5)
    peer = Peer(layer)
    assert not torch.equal(peer(x), peer(x))
    peer.freeze()
    assert torch.equal(peer(x), peer(x))
    peer.unfreeze()
    assert not torch.equal(peer(x), peer(x))
    with predicting(layer, "weights"):
        first = peer(x)
        assert torch.equal(peer(x), first)
        resample(layer)
        assert not torch.equal(peer(x), first)
    assert peer.divergence() > 0


def test_an_embedding():
    peer, x = Peer(varnet.Embedding(7, 4, padding_idx=0, log_alpha=-1.0)), torch.randint(1, 7, (3, 5))
    assert peer(x).shape == (3, 5, 4) and not torch.equal(peer(x), peer(x))
    assert peer(torch.zeros(2, dtype=torch.long)).abs().max() < 1e-7
    peer.freeze()
    assert torch.equal(peer(x), peer(x))


def test_the_divergences_of_a_network_add_up():
    layers = [make(log_alpha=-1.0) for make, *_ in SHAPES.values()]
    total = kl(nn.ModuleList(layers))
    torch.testing.assert_close(total, torch.stack([kl(layer) for layer in layers]).sum())
