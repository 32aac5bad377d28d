"""Kinds of layer beside Linear and Conv2d: moments against closed forms and weight samples, fast path against the plain
one, deterministic mode against the layer of torch."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from tests.nn.refused import assert_refused
from tests.statistics_helper import assert_mean, assert_variance
from varnet import collapse, kl, predict, predicting, prune, resample, variational
from varnet.evaluation.predictions import weight_samples
from varnet.evaluation.prefix import Sampler
from varnet.nn import lrt_fast as local
from varnet.nn.layers import Bilinear, Conv1d, ConvTranspose2d, Embedding, LinearTransposed, Variational
from varnet.nn.matching import LOOK_ALIKES, register_layer

PARAMS = ("zero_mean", "layer", "neuron", "weight", "additive")


class Conv1D(nn.Module):
    """A dense layer with transposed weights, as GPT-2 has it."""

    def __init__(self, outputs: int, inputs: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs)), nn.Parameter(torch.randn(outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight)
        return out.view(*x.shape[:-1], -1)


@pytest.fixture(autouse=True, scope="module")
def registered():
    register_layer(Conv1D, LinearTransposed)
    yield
    LOOK_ALIKES.pop(f"{Conv1D.__module__}.Conv1D")


CASES = {  # name -> (plain layer, shapes of the inputs without the batch)
    "rows": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), [(4, 7)]),
    "circular rows": (lambda: nn.Conv1d(4, 6, 3, padding=1, padding_mode="circular"), [(4, 5)]),
    "volumes": (lambda: nn.Conv3d(2, 4, 2, dilation=(1, 2, 1), groups=2), [(2, 3, 4, 3)]),
    "transposed rows": (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), [(4, 4)]),
    "transposed images": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, dilation=2), [(4, 3, 2)]),
    "transposed volumes": (lambda: nn.ConvTranspose3d(2, 3, 2, bias=False), [(2, 2, 3, 2)]),
    "embedding": (lambda: nn.Embedding(7, 4), None),
    "padded embedding": (lambda: nn.Embedding(7, 4, padding_idx=2), None),
    "bilinear": (lambda: nn.Bilinear(3, 4, 5), [(3,), (4,)]),
    "transposed weights": (lambda: Conv1D(5, 3), [(2, 3)]),
}
names = pytest.mark.parametrize("name", CASES)


def made(name: str, param: str = "layer", **options) -> Variational:
    noise = {} if param == "zero_mean" else {"log_alpha": -0.5}
    layer = variational(CASES[name][0](), param=param, **noise, **options)
    if param in ("neuron", "weight"):
        nn.init.uniform_(layer.log_alpha, -2, 1)
    return layer


def inputs(name: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """One object; of an embedding several different look-ups."""
    shapes = CASES[name][1]
    if shapes is None:
        return [torch.tensor([[3, 0, 2, 5]])]
    return [torch.randn(1, *shape, dtype=dtype) for shape in shapes]


def many(objects: list[Tensor], n: int) -> list[Tensor]:
    return [x.expand(n, *x.shape[1:]) for x in objects]


def closed_form(name: str, layer: Variational, x: list[Tensor]) -> tuple[Tensor, Tensor]:
    """By the plain layer: with the means, and with the variances and squared inputs."""
    mean, variance, _ = layer.posterior()
    plain, squared = CASES[name][0](), [a.square() if a.is_floating_point() else a for a in x]
    found = []
    for weight, bias, given in ((mean, layer.bias, x), (variance.expand(mean.shape), None, squared)):
        plain.weight = nn.Parameter(weight.detach().clone())
        if getattr(plain, "bias", None) is not None:
            plain.bias = nn.Parameter(torch.zeros_like(plain.bias) if bias is None else bias.detach().clone())
        found.append(plain(*given)[0].detach())
    if name == "padded embedding":
        found[1] = found[1] * (x[0][0] != 2)[:, None]
    return found[0], found[1]


@pytest.mark.parametrize("param", PARAMS)
@names
def test_moments_against_the_closed_form(name, param):
    layer, x = made(name, param), inputs(name)
    with torch.no_grad():
        expected = closed_form(name, layer, x)
        mean, variance = layer.moments(*x)
        samples = layer(*many(x, 4000))
    torch.testing.assert_close(variance[0], expected[1], rtol=1e-4, atol=1e-6)
    if mean is not None:
        torch.testing.assert_close(mean.expand(variance.shape)[0], expected[0], rtol=1e-4, atol=1e-5)
    assert_mean(samples, expected[0])
    assert_variance(samples, expected[1] + 1e-16)


@names
def test_moments_against_samples_of_the_weights(name):
    layer, x = made(name, "neuron"), inputs(name)
    mean, variance = closed_form(name, layer, x)
    with torch.no_grad(), predicting(layer, "weights"):
        samples = torch.stack([(layer.resample(), layer(*x)[0])[1] for _ in range(500)])
    assert_mean(samples, mean)
    assert_variance(samples, variance)


@pytest.mark.parametrize("param", ["layer", "neuron"])
@names
def test_deterministic_mode_is_the_layer_of_torch_bit_for_bit(name, param):
    plain, x = CASES[name][0](), many(inputs(name), 3)
    expected = plain(*x)
    layer = variational(copy.deepcopy(plain), param=param, random_bias=True)
    with predicting(layer, "deterministic"):
        assert torch.equal(layer(*x), expected)
    layer.load_state_dict(plain.state_dict())
    with predicting(layer, "deterministic"):
        assert torch.equal(layer(*x), expected)


@pytest.mark.parametrize("param", ["zero_mean", "layer", "neuron", "additive"])
@pytest.mark.parametrize("name", [name for name in CASES if "embedding" not in name and name != "bilinear"])
def test_fused_equals_plain(name, param, monkeypatch):
    layer = made(name, param).double()
    (x,) = [x.requires_grad_() for x in inputs(name, torch.double)]

    def outcome() -> tuple:
        torch.manual_seed(1)
        out = layer(x)
        return out, torch.autograd.grad((out * torch.arange(out.numel()).view(out.shape)).sum(), learned)

    learned = [x, *layer.parameters()]
    fused = outcome()
    monkeypatch.setattr(local, "_fusible", lambda *_: False)
    torch.testing.assert_close(fused, outcome())


@pytest.mark.parametrize("name", ["transposed images", "bilinear", "volumes"])
def test_gradients_against_finite_differences(name):
    layer, x = made(name, "neuron").double(), [a.requires_grad_() for a in inputs(name, torch.double)]

    def function(*given: Tensor) -> Tensor:
        torch.manual_seed(1)
        return torch.func.functional_call(layer, dict(zip(learned, given[len(x) :], strict=True)), given[: len(x)])

    learned = dict(layer.named_parameters())
    values = [p.detach().clone().requires_grad_() for p in learned.values()]
    assert torch.autograd.gradcheck(function, (*x, *values), fast_mode=True)


@pytest.mark.parametrize("param", ["layer", "zero_mean"])
@pytest.mark.parametrize("name", ["rows", "transposed images", "bilinear", "transposed weights"])
def test_random_biases_add_their_variance(name, param):
    layer, x = made(name, param, random_bias=True), inputs(name)
    part = layer.random["bias"]
    with torch.no_grad():
        of_weights = copy.deepcopy(layer)
        gone = of_weights.random["bias"]
        gone.param.erase(gone, torch.ones(part.weight_shape, dtype=torch.bool))
        _, without = of_weights.moments(*x)
        mean, variance = layer.moments(*x)
        samples = layer(*many(x, 4000))
        dims = [1] * (variance.dim() - 2) if name in ("rows", "transposed images") else []
        added = part.posterior().variance.view(-1, *dims)
    torch.testing.assert_close(variance, without + added)
    assert_mean(samples, 0.0 if mean is None else mean[0])
    assert_variance(samples, variance[0])
    torch.testing.assert_close(kl(layer), layer.kl() + part.kl())


@names
def test_all_that_a_network_is_used_for(name, tmp_path):
    """States, KL and its gradient, copies, pickles, checkpoints, pruning, conversion to zero mean."""
    layer, x = made(name, "neuron"), many(inputs(name), 3)
    (layer(*x).square().sum() + kl(layer)).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())
    twin = variational(CASES[name][0](), param="neuron", log_alpha=2.0)
    twin.load_state_dict(layer.state_dict())
    outs = []
    for each in (layer, twin, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.manual_seed(3)
        outs.append(each(*x))
    assert all(torch.equal(outs[0], out) for out in outs[1:])
    for mode in ("permuted", "zero_mean"):
        with predicting(layer, mode):
            assert not torch.equal(layer(*x), layer(*x))
    with predicting(layer, "weights"):
        first = layer(*x)
        assert torch.equal(layer(*x), first)
        resample(layer)
        assert not torch.equal(layer(*x), first)
    assert float((prune(layer, 0.5, by="snr").mu == 0).double().mean()) == pytest.approx(0.5, abs=0.1)
    variance = layer.posterior().variance.detach().clone()
    assert collapse(layer, threshold=-3)[0].collapsed
    torch.testing.assert_close(layer.posterior().variance, variance)


class Network(nn.Module):
    """A layer of one input between a deterministic beginning and a classifier."""

    def __init__(self, before: nn.Module, layer: nn.Module):
        super().__init__()
        self.before, self.layer, self.flat = before, layer, nn.Flatten()

    def forward(self, x: Tensor) -> Tensor:
        return self.flat(self.layer(self.before(x)))


@pytest.mark.parametrize("name", [name for name in CASES if name != "bilinear"])
def test_samples_share_a_prefix(name):
    x = many(inputs(name), 4)[0].clone()
    model = Network(nn.Identity() if CASES[name][1] is None else nn.Tanh(), made(name, "neuron", random_bias=True))
    with torch.no_grad(), predicting(model, "sample"):
        sampler = Sampler(model)
        torch.manual_seed(2)
        fast = list(sampler(x, 3))
        assert sampler.why is None and sampler.stochastic
        torch.manual_seed(2)
        slow = [model(x) for _ in range(3)]
    torch.testing.assert_close(fast, slow)
    batches = [(x, torch.zeros(4, dtype=torch.long))]
    assert predict(model, batches, samples=2).log_probs.isfinite().all()
    assert weight_samples(model, batches, draws=2).accuracy.shape == (2,)


def test_an_output_size_of_a_transposed_convolution():
    plain = nn.ConvTranspose2d(2, 3, 3, stride=2)
    x, size = torch.randn(2, 2, 4, 4), (10, 9)
    expected = plain(x, output_size=size)
    layer = variational(plain)
    assert layer(x, output_size=size).shape == expected.shape
    with predicting(layer, "deterministic"):
        assert torch.equal(layer(x, output_size=size), expected)
    assert_refused(lambda: layer(x, output_size=(12, 9)), None, "output_size=(12, 9)", "from [9, 9] to [10, 10]")


def test_the_padding_of_an_embedding_has_no_noise_and_no_gradient():
    for param in ("layer", "additive", "zero_mean"):
        layer = made("padded embedding", param)
        first, second = layer(torch.tensor([2, 2]))
        assert (first - second).abs().max() < 1e-6  # the 1e-16 that is added to every variance
        layer(torch.tensor([2, 1])).sum().backward()
        assert all((p.grad[2] == 0).all() and (p.grad[1] != 0).any() for p in layer.parameters() if p.dim() == 2)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: Conv1d(3, 2, 3)(torch.zeros(1, 4, 5)), ["rows of 3 channels", "(1, 4, 5)"]),
        (lambda: ConvTranspose2d(3, 2, 3)(torch.zeros(3, 5)), ["images of 3 channels", "(3, 5)"]),
        (lambda: Embedding(3, 2)(torch.zeros(2)), ["whole numbers", "float32"]),
        (lambda: Bilinear(3, 2, 1)(torch.zeros(1, 3), torch.zeros(1, 3)), ["3 and 2 features", "(1, 3)"]),
        (lambda: made("transposed weights")(torch.zeros(1, 5)), ["3 features", "(1, 5)"]),
    ],
)
def test_inputs_that_do_not_fit(call, words):
    assert_refused(call, None, *words)
