"""Moments of every parameterization x kind of layer x sampler, gradients, states, precision and errors."""

import copy
import math
import shutil

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.nn.refused import assert_refused
from tests.statistics_helper import assert_mean, assert_variance
from varnet import negative_elbo, predicting, resample, set_mode
from varnet.nn import lrt_fast as local
from varnet.nn.layers import Conv2d, Linear, State
from varnet.nn.networks import build
from varnet.nn.params import PARAMS

STOCHASTIC = ("zero_mean", "layer", "neuron", "weight", "additive", "gaussian_dropout")
GEOMETRIES = [
    {},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "bias": False},
    {"groups": 2, "padding": (2, 1)},
    {"padding": "same"},
    {"padding": 1, "padding_mode": "reflect"},
    {"padding": 1, "padding_mode": "circular", "stride": (1, 2)},
]


def linear(param: str, **options) -> Linear:
    layer = Linear(6, 4, param=param, **{"log_alpha": -0.5, **options})
    if param in ("neuron", "weight"):
        nn.init.uniform_(layer.log_alpha, -2, 1)
    return layer


def conv(param: str, **options) -> Conv2d:
    layer = Conv2d(4, 6, 3, param=param, **{"log_alpha": -0.5, **options})
    if param in ("neuron", "weight"):
        nn.init.uniform_(layer.log_alpha, -2, 1)
    return layer


def inputs(layer: nn.Module, n: int = 1) -> torch.Tensor:
    x = torch.randn(1, 6) if isinstance(layer, Linear) else torch.randn(1, 4, 7, 6)
    return x.expand(n, *x.shape[1:])


def closed_form(layer, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of the output from those of the weights, by the plain deterministic layer."""
    mean, variance, _ = layer.posterior()
    x = x[:1].detach()
    bias = torch.zeros(len(mean)) if layer.bias is None else layer.bias
    if isinstance(layer, Linear):
        return F.linear(x, mean, bias)[0], F.linear(x**2, variance.expand_as(mean))[0]
    twin = nn.Conv2d(4, 6, 3, layer.geometry.stride, layer.geometry.padding, layer.geometry.dilation,
                     layer.geometry.groups, padding_mode=layer.padding_mode)  # fmt: skip
    twin.weight, twin.bias = nn.Parameter(mean.detach()), nn.Parameter(bias.detach())
    output = twin(x)
    twin.weight, twin.bias = nn.Parameter(variance.expand_as(mean).detach()), None
    return output[0], twin(x**2)[0]


@pytest.mark.parametrize("make", [linear, conv])
@pytest.mark.parametrize("param", STOCHASTIC)
def test_local_moments(make, param):
    layer = make(param)
    x = inputs(layer, 20_000)
    mean, variance = closed_form(layer, x)
    with torch.no_grad():
        samples = layer(x)
    assert_mean(samples, mean)
    assert_variance(samples, variance)


@pytest.mark.parametrize("make", [linear, conv])
@pytest.mark.parametrize("param", STOCHASTIC)
def test_weight_sampling_agrees_with_local_reparameterization(make, param):
    layer = make(param)
    x = inputs(layer)
    mean, variance = closed_form(layer, x)
    with torch.no_grad(), predicting(layer, "weights"):
        samples = torch.stack([(layer.resample(), layer(x)[0])[1] for _ in range(4000)])
    assert_mean(samples, mean)
    assert_variance(samples, variance)


@pytest.mark.parametrize("learn", ["sigma", "log_sigma"])
@pytest.mark.parametrize("make", [linear, conv])
@pytest.mark.parametrize("noise", ["gaussian", "bernoulli", "uniform"])
def test_noise_families(make, noise, learn):
    layer = make("zero_mean", noise=noise, learn=learn)
    x = inputs(layer)
    mean, variance = closed_form(layer, x)
    with torch.no_grad():
        samples = torch.cat([layer(x) for _ in range(4000)])
    assert_mean(samples, mean)
    assert_variance(samples, variance)
    theta = layer.sigma if learn == "sigma" else layer.log_sigma.exp()
    with torch.no_grad():
        ratio = layer.weight / theta
    if noise == "bernoulli":
        torch.testing.assert_close(ratio.abs(), torch.ones_like(ratio))
    if noise == "uniform":
        assert ratio.abs().max() <= 1
        torch.testing.assert_close(layer.posterior().variance, theta**2 / 3)


@pytest.mark.parametrize("options", GEOMETRIES, ids=str)
def test_convolution_geometry(options):
    layer = conv("neuron", **options)
    x = inputs(layer, 10_000)
    mean, variance = closed_form(layer, x)
    with torch.no_grad():
        samples = layer(x)
        output_mean, output_variance = layer.moments(x[:1])
    assert samples.shape[1:] == mean.shape
    assert_mean(samples, mean)
    assert_variance(samples, variance)
    torch.testing.assert_close(output_mean[0], mean)
    torch.testing.assert_close(output_variance[0], variance)
    with predicting(layer, "deterministic"):
        assert torch.equal(layer(x[:1])[0], mean)


@pytest.mark.parametrize("param", ["zero_mean", "neuron"])
def test_inputs_without_a_batch_and_with_several_batch_dimensions(param):
    dense = linear(param)
    assert dense(torch.randn(6)).shape == (4,)
    assert dense(torch.randn(2, 3, 6)).shape == (2, 3, 4)
    dense(torch.randn(2, 3, 6, requires_grad=True)).sum().backward()
    assert conv(param)(torch.randn(4, 7, 6)).shape == (6, 5, 4)
    assert conv(param)(torch.randn(0, 4, 7, 6)).shape == (0, 6, 5, 4)


# ---- gradients: the fused path against the plain one, and both against finite differences


@pytest.mark.parametrize("options", [{}, {"bias": False}], ids=str)
@pytest.mark.parametrize("make", [linear, conv])
@pytest.mark.parametrize("param", STOCHASTIC)
def test_fused_equals_plain(make, param, options, monkeypatch):
    layer = make(param, dtype=torch.double, **options)
    x = inputs(layer, 3).double().clone().requires_grad_()

    def outcome():
        torch.manual_seed(1)
        out = layer(x)
        return out, torch.autograd.grad((out * torch.arange(out.numel()).view(out.shape)).sum(), [x, *params])

    params = list(layer.parameters())
    fused = outcome()
    monkeypatch.setattr(local, "_fusible", lambda *_: False)
    plain = outcome()
    torch.testing.assert_close(fused, plain)


@pytest.mark.parametrize("make", [linear, conv])
@pytest.mark.parametrize("param", STOCHASTIC)
def test_gradcheck(make, param):
    layer = make(param, dtype=torch.double)
    x = inputs(layer, 2).double()[..., :6, :].clone().requires_grad_()
    names = [name for name, _ in layer.named_parameters()]

    def function(x, *values):
        torch.manual_seed(1)
        for name, value in zip(names, values, strict=True):
            delattr(layer, name)
            setattr(layer, name, value)
        return layer(x)

    values = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    assert torch.autograd.gradcheck(function, (x, *values))
    assert torch.autograd.gradgradcheck(function, (x, *values), fast_mode=True)


def test_channels_last_is_kept_and_changes_nothing():
    for channels in (1, 4):
        layer = Conv2d(channels, 6, 3, param="layer", log_alpha=-0.5)
        x = torch.randn(5, channels, 8, 8)
        last = copy.deepcopy(layer).to(memory_format=torch.channels_last)
        out = last(x.to(memory_format=torch.channels_last))
        assert out.is_contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            mean, variance = last.moments(x)
        assert mean.stride() == variance.stride()
        torch.testing.assert_close((mean, variance), layer.moments(x))
        out.sum().backward()
        assert last.mu.grad.shape == last.mu.shape


@pytest.mark.parametrize("param", ["layer", "neuron", "zero_mean"])
@pytest.mark.parametrize("weights_last", [False, True])
@pytest.mark.parametrize("input_last", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_gradients_do_not_depend_on_the_layout(param, weights_last, input_last, bias):
    """Of the weights, of the input, or of one of them alone: with the noise that was drawn, as torch finds them."""
    torch.manual_seed(0)
    layer = Conv2d(4, 6, 3, bias=bias, param=param, log_alpha=-0.5)
    x = torch.randn(5, 4, 8, 8)
    layer = layer.to(memory_format=torch.channels_last) if weights_last else layer
    x = (x.to(memory_format=torch.channels_last) if input_last else x).requires_grad_()
    out = layer(x)
    if weights_last and input_last:
        assert out.is_contiguous(memory_format=torch.channels_last)
    factor = torch.randn(out.shape)
    fast = torch.autograd.grad((out * factor).sum(), [x, *layer.parameters()])
    mean, variance = layer.moments(x)
    mean = torch.zeros_like(variance) if mean is None else mean
    noise = ((out - mean) / variance.sqrt()).detach()
    plain = torch.autograd.grad(((mean + variance.sqrt() * noise) * factor).sum(), [x, *layer.parameters()])
    for a, b in zip(fast, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * b.abs().max().item())


# ---- states


def network(**options) -> nn.Sequential:
    return nn.Sequential(
        Conv2d(1, 3, 3, **options),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        Linear(108, 5, **options),
    )


def test_sampling_does_not_depend_on_train_or_eval():
    layer, x = linear("layer"), torch.randn(3, 6)
    for flag in (True, False):
        layer.train(flag)
        assert not torch.equal(layer(x), layer(x))
        with predicting(layer, "deterministic"):
            assert torch.equal(layer(x), layer(x))


def test_predicting_restores_everything():
    model = network().train()
    model[1].eval()
    before = {name: m.training for name, m in model.named_modules()}
    with pytest.raises(KeyError), predicting(model, "weights"):
        assert not model.training and model[3].training
        raise KeyError
    assert {name: m.training for name, m in model.named_modules()} == before
    assert model[0].state == State() and model[0].held_noise is None


def test_predicting_uses_running_statistics_and_controls_dropout():
    model, x = network(), torch.randn(8, 1, 8, 8)
    model(x)
    statistics = model[1].running_mean.clone()
    with predicting(model, "sample"):
        assert not torch.equal(model(x), model(x))
        features = model[3](torch.ones(1000))
    assert torch.equal(model[1].running_mean, statistics)
    assert 0 < (features == 0).sum() < 1000
    with predicting(model, "deterministic"):
        assert torch.equal(model(x), model(x))
        assert torch.equal(model[3](torch.ones(9)), torch.ones(9))


@pytest.mark.parametrize("mode", ["sample", "weights", "zero_mean", "permuted"])
def test_dropout_is_on_in_every_stochastic_mode(mode):
    model = network()
    with predicting(model, mode):
        assert model[3].training and not model[1].training


def test_permutations_are_random_and_forgotten_afterwards():
    layer = linear("weight")
    orders = []
    for _ in range(2):
        with predicting(layer, "permuted"):
            orders.append(layer.permutation.clone())
    assert not torch.equal(*orders) and layer.permutation is None
    assert torch.equal(orders[0].sort()[0], torch.arange(24))


def test_chosen_layers_with_held_weights():
    model = nn.Sequential(linear("layer"), Linear(4, 3, log_alpha=-1.0))
    x = torch.randn(2, 6)
    with predicting(model, "zero_mean", layers="0", sampling="weights"):
        assert torch.equal(model(x), model(x))
    with pytest.raises(ValueError, match='needs the state "weights"'):
        resample(model)


def test_a_compiled_model_is_addressed_by_its_own_names():
    model = torch.compile(network(), backend="eager")
    with predicting(model, "deterministic", layers="5"):
        assert model._orig_mod[5].state.sampling == "none" and model._orig_mod[0].state.sampling == "local"


def test_forward_mode_batched_gradients_and_meta_tensors():
    layer, x = linear("layer", dtype=torch.double), torch.randn(3, 6, dtype=torch.double)
    with torch.autograd.forward_ad.dual_level():
        out = layer(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))
        assert torch.isfinite(torch.autograd.forward_ad.unpack_dual(out).tangent).all()
    for module in (layer, conv("neuron").double()):
        y = inputs(module, 2).double().clone().requires_grad_()
        out = module(y)
        grads = torch.eye(out.numel(), dtype=torch.double)[:3].view(3, *out.shape)
        batched = torch.autograd.grad(out, [y, module.log_alpha], grads, is_grads_batched=True, retain_graph=True)
        for i, g in enumerate(grads):
            torch.testing.assert_close(
                [b[i] for b in batched], list(torch.autograd.grad(out, [y, module.log_alpha], g, retain_graph=True))
            )
    assert linear("layer", device="meta")(torch.randn(2, 6, device="meta")).shape == (2, 4)


def test_states_nest():
    layer, x = linear("layer"), torch.randn(2, 6)
    with predicting(layer, "weights"):
        first = layer(x)
        with predicting(layer, "deterministic"):
            assert not torch.equal(layer(x), first)
        assert torch.equal(layer(x), first)


@pytest.mark.parametrize("noise", ["gaussian", "bernoulli", "uniform"])
def test_a_draw_is_held_until_resample(noise):
    model = nn.Sequential(linear("zero_mean", noise=noise), nn.Linear(4, 2))
    x, other = torch.randn(3, 6), torch.randn(2, 6)
    with predicting(model, "weights"):
        first = model(x)
        model(other)
        assert torch.equal(model(x), first)
        weight = model[0].weight
        torch.testing.assert_close(model[0](x), F.linear(x, weight, model[0].bias))
        resample(model)
        assert not torch.equal(model(x), first)


def test_gradients_flow_through_a_held_draw():
    layer, x = linear("weight"), torch.randn(3, 6)
    set_mode(layer, "weights")
    layer(x).sum().backward()
    assert layer.mu.grad.abs().sum() > 0 and layer.log_alpha.grad.abs().sum() > 0
    noise = layer.held_noise.clone()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    layer(x)
    assert torch.equal(layer.held_noise, noise)


def test_resample_outside_its_state_is_an_error():
    with pytest.raises(ValueError, match='needs the state "weights"'):
        resample(linear("layer"))


@pytest.mark.parametrize("learn", ["sigma", "log_sigma"])
def test_deterministic_prediction_of_a_zero_mean_network_ignores_its_input(learn):
    model = network(param="zero_mean", learn=learn)
    with predicting(model, "deterministic"):
        out = model(torch.randn(7, 1, 8, 8))
    assert torch.equal(out, out[:1].expand_as(out))
    with predicting(model, "sample"):
        out = model(torch.randn(7, 1, 8, 8))
    assert not torch.equal(out, out[:1].expand_as(out))


@pytest.mark.parametrize("sampling", ["local", "weights"])
@pytest.mark.parametrize("mode", ["zero_mean", "permuted"])
@pytest.mark.parametrize("make", [linear, conv])
def test_zero_mean_and_permuted_moments(make, mode, sampling):
    layer = make("weight")
    x = inputs(layer)
    layer.bias.data.zero_()
    with torch.no_grad(), predicting(layer, mode, sampling=sampling):
        _output_mean, output_variance = layer.moments(x)
        draw = (lambda: layer.resample()) if sampling == "weights" else (lambda: None)
        samples = torch.stack([(draw(), layer(x)[0])[1] for _ in range(4000)])
        shuffled = layer._std().abs()
    mean, variance = closed_form(layer, x)
    if mode == "zero_mean":
        assert_mean(samples, 0.0)
        assert_variance(samples, variance)
    else:
        assert_mean(samples, mean)
        assert_variance(samples, output_variance[0])
        assert not torch.allclose(output_variance[0], variance)
        torch.testing.assert_close(shuffled.flatten().sort()[0], layer.param.std(layer).abs().flatten().sort()[0])


def test_modes_for_chosen_layers():
    model = network(param="layer", log_alpha=-1.0)
    with predicting(model, "zero_mean", layers="5"):
        assert model[5].state.zero_mean and model[0].state == State()
    with predicting(model, "weights", layers=["0"]):
        resample(model)
        assert model[0].held_noise is not None and model[5].held_noise is None
    with (
        pytest.raises(ValueError, match="there is no layer 'conv9'; choose from: 0, 5"),
        predicting(model, "zero_mean", layers="conv9"),
    ):
        pass


# ---- numbers at the edge


@pytest.mark.parametrize("param", STOCHASTIC)
@pytest.mark.parametrize("make", [linear, conv])
@pytest.mark.parametrize("log_alpha", [-20.0, 20.0])
def test_zero_inputs_and_extreme_log_alpha(make, param, log_alpha):
    layer = make(param, log_alpha=log_alpha)
    for x in (inputs(layer, 3).clone(), torch.zeros_like(inputs(layer, 3))):
        for mode in ("sample", "weights", "deterministic", "zero_mean", "permuted"):
            with predicting(layer, mode):
                layer.zero_grad()
                x = x.detach().requires_grad_()
                out = layer(x)
                out.sum().backward()
                assert torch.isfinite(out).all() and torch.isfinite(x.grad).all()
                assert all(p.grad is None or torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("param", STOCHASTIC)
@pytest.mark.parametrize("fused", [True, False])
def test_gradients_are_finite_when_a_variance_is_0(param, fused, monkeypatch):
    monkeypatch.setattr(local, "_fusible", lambda *_: fused)
    layer = linear(param)
    with torch.no_grad():
        for p in layer.parameters():
            p.fill_(-math.inf if p is getattr(layer, "log_sigma2", None) else 0.0)
    x = torch.randn(3, 6, requires_grad=True)
    layer(x).sum().backward()
    assert torch.isfinite(x.grad).all()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("param", ["deterministic", *STOCHASTIC])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("log_alpha", [-20.0, 0.0, 20.0])
def test_autocast(param, dtype, log_alpha):
    layer = nn.Sequential(conv(param, log_alpha=log_alpha), nn.ReLU(), nn.Flatten(), Linear(120, 4, param=param))
    for x in (300 * torch.randn(5, 4, 7, 6), torch.zeros(5, 4, 7, 6)):
        with torch.autocast("cpu", dtype):
            out = layer[0](x)
            assert out.dtype == dtype and torch.isfinite(out).all()
            loss = layer[1:](out.clamp(-10, 10)).float().sum() + 1e-3 * out.float().tanh().sum()
        loss.backward()
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("param", STOCHASTIC)
def test_pure_half_precision(param):
    layer = linear(param, log_alpha=20.0, dtype=torch.bfloat16)
    x = torch.randn(5, 6, dtype=torch.bfloat16, requires_grad=True)
    out = layer(x)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    assert torch.isfinite(out).all() and all(p.grad is None or torch.isfinite(p.grad).all() for p in layer.parameters())
    with pytest.raises(ValueError, match="float16 weights, which cannot hold variances"):
        layer.half()(x.half())
    with predicting(layer, "deterministic"):
        assert layer(x.half()).dtype == torch.float16


@pytest.mark.parametrize("mode", ["sample", "weights"])
@pytest.mark.parametrize("log_alpha", [-20.0, 10.0, 20.0])
def test_a_whole_network_in_float16_autocast(mode, log_alpha):
    model = build("lenet5", (1, 28, 28), 10, layers="all", bias=True, batch_norm=["dense1"], log_alpha=log_alpha)
    set_mode(model, mode)
    with torch.autocast("cpu", torch.float16):
        logits = model(torch.rand(8, 1, 28, 28))
    assert torch.isfinite(logits).all()
    assert torch.isfinite(negative_elbo(model, logits, torch.arange(8), 60_000))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_keeps_the_moments(dtype):
    """Small weights and inputs: their squares vanish in float16 unless the layer takes care."""
    layer = linear("layer", log_alpha=1.0, bias=False)
    layer.mu.data.mul_(1e-2)
    x = 1e-2 * inputs(layer, 20_000)
    _mean, variance = closed_form(layer, x)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        samples = layer(x).double()
    relative = 2.0**-7 if dtype == torch.bfloat16 else 2.0**-10
    error = samples.var(0) * math.sqrt(2 / len(samples)) * 5 + 4 * relative * variance
    assert ((samples.var(0) - variance).abs() <= error).all()


# ---- the rest of torch


@pytest.mark.parametrize("param", PARAMS)
def test_state_dict_round_trip_and_deepcopy(param):
    model = network(param=param, log_alpha=-1.0)
    twin = network(param=param, log_alpha=-2.0)
    twin.load_state_dict(model.state_dict())
    clone = copy.deepcopy(model)
    x = torch.randn(4, 1, 8, 8)
    outs = []
    for net in (model, twin, clone):
        torch.manual_seed(3)
        with predicting(net, "sample"):
            outs.append(net(x))
    assert torch.equal(outs[0], outs[1]) and torch.equal(outs[0], outs[2])
    with predicting(model, "weights"):
        assert not any("noise" in key for key in model.state_dict())
        assert torch.equal(copy.deepcopy(model[5]).held_noise, model[5].held_noise)


def test_torch_func():
    layer, x = linear("weight"), torch.randn(9, 6)
    values = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(values, x):
        return torch.func.functional_call(layer, values, (x,)).square().sum()

    grads = torch.func.grad(loss)(values, x)
    assert all(torch.isfinite(g).all() for g in grads.values())
    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0), randomness="different")(values, x)
    assert per_sample["mu"].shape == (9, 4, 6)
    stacked = {name: torch.stack([p, p]) for name, p in values.items()}
    outs = torch.func.vmap(
        lambda v, x: torch.func.functional_call(layer, v, (x,)), in_dims=(0, None), randomness="different"
    )(stacked, x.expand(20_000, 9, 6)[:, 0])
    assert outs.shape == (2, 20_000, 4)
    mean, variance = closed_form(layer, x)
    for samples in outs:
        assert_mean(samples, mean)
        assert_variance(samples, variance)
    tangent = torch.func.jvp(lambda v: loss(v, x), (values,), ({k: torch.ones_like(v) for k, v in values.items()},))[1]
    assert torch.isfinite(tangent)


def test_torch_func_of_a_convolution():
    layer, x = conv("layer"), torch.randn(3, 4, 7, 6)
    values = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(values, x):
        return torch.func.functional_call(layer, values, (x[None],)).square().sum()

    grads = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0), randomness="different")(values, x)
    assert grads["mu"].shape == (3, 6, 4, 3, 3) and torch.isfinite(grads["log_alpha"]).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make, backend",
    [
        (linear, "aot_eager"),  # our part of it, the graph and its gradient, without half a minute of a C++ compiler
        pytest.param(linear, "inductor", marks=pytest.mark.slow),
        pytest.param(conv, "inductor", marks=pytest.mark.slow),
    ],
)
def test_compiled_moments(make, backend):
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("no C++ compiler is installed")
    layer = make("neuron")
    x = inputs(layer, 20_000)
    mean, variance = closed_form(layer, x)
    compiled = torch.compile(layer, backend=backend)
    with torch.no_grad():
        samples = compiled(x)
    assert_mean(samples, mean)
    assert_variance(samples, variance)
    compiled(x[:8]).sum().backward()
    assert torch.isfinite(layer.log_alpha.grad).all()


# ---- wrong input


@pytest.mark.parametrize(
    "call, key, words",
    [
        (lambda: Linear(3, 2, param="layr"), "param", ["=layr", "additive, deterministic"]),
        (
            lambda: Linear(3, 2, noise="uniform"),
            "noise",
            ["=uniform", "param=layer", "use param=zero_mean"],
        ),
        (lambda: Linear(3, 2, param="zero_mean", noise="cauchy"), "noise", ["=cauchy", "gaussian, bernoulli, uniform"]),
        (lambda: Linear(3, 2, param="zero_mean", learn="mu"), "learn", ["=mu", "sigma, log_sigma"]),
        (lambda: Linear(3, 2, log_alpha=float("nan")), "log_alpha", ["=nan", "use a finite number"]),
        (lambda: Linear(3, 2, log_alpha="low"), "log_alpha", ["=low", "use a finite number"]),
        (lambda: Linear(3, 2, log_alpha=-30.0), "log_alpha", ["=-30", "clip=(-20, 20)", "start inside, or widen clip"]),
        (lambda: Linear(3, 2, clip=(3, 1)), "clip", ["=(3, 1)", "use two numbers, the smaller first"]),
        (lambda: Linear(3, 2, clip=5), "clip", ["=5", "use two numbers"]),
        (lambda: Linear(3, 2, log_alpah=1), "log_alpah", ["is not known", "choose from clip, estimator"]),
        (lambda: Linear(3, 2, param="neuron", log_alpha=torch.zeros(3)), "log_alpha", ["shape (3,)", "shape (2,)"]),
        (lambda: Linear(3, 2, param="layer", log_alpha=torch.zeros(2)), "log_alpha", ["shape (2,)", "shape ()"]),
        (lambda: Linear(3, 2)(torch.zeros(1, 4)), None, ["takes inputs of 3 features", "got shape (1, 4)"]),
        (lambda: Conv2d(3, 2, 3)(torch.zeros(1, 4, 5, 5)), None, ["images of 3 channels", "got shape (1, 4, 5, 5)"]),
        (lambda: predicting(Linear(3, 2), "mean").__enter__(), "mode", ["=mean", "use one of sample, weights"]),
        (lambda: set_mode(Linear(3, 2), "sample", sampling="global"), "sampling", ["=global", "local, weights"]),
    ],
)
def test_one_clear_error(call, key, words):
    assert_refused(call, key, *words)


def test_initial_values():
    assert torch.equal(
        Linear(3, 2, param="neuron", log_alpha=torch.tensor([1.0, 2.0])).log_alpha, torch.tensor([1.0, 2.0])
    )
    assert Linear(3, 2, param="layer", log_alpha=-7).log_alpha.shape == ()
    assert Linear(3, 2, param="weight", log_alpha=-7).log_alpha.shape == (2, 3)
    torch.testing.assert_close(Linear(3, 2, param="zero_mean", log_sigma=-2.0).sigma, torch.full((2, 3), math.exp(-2)))
    torch.testing.assert_close(Linear(3, 2, param="additive", log_sigma=-2.0).log_sigma2, torch.full((2, 3), -4.0))
    additive = Linear(3, 2, param="additive", log_alpha=-3.0)
    torch.testing.assert_close(additive.posterior().log_alpha, torch.full((2, 3), -3.0))
    sigma = Linear(400, 300, param="zero_mean").sigma  # U(-1/sqrt(I), 1/sqrt(I))
    assert sigma.abs().max() <= 1 / 20 and sigma.min() < -0.049 and sigma.max() > 0.049
    assert Linear(3, 2, param="gaussian_dropout", log_alpha=0.0).log_alpha.requires_grad is False


@pytest.mark.parametrize("make", [linear, conv])
@pytest.mark.parametrize("param", ["layer", "neuron", "weight"])
def test_clipping_reaches_the_samples_and_stops_the_gradient(make, param):
    layer = make(param, clip=(-3, 1))
    layer.log_alpha.data.fill_(9.0)
    x = inputs(layer, 4).clone()
    _, std = layer.moments(x)
    layer.log_alpha.data.fill_(1.0)
    torch.testing.assert_close(std, layer.moments(x)[1])
    layer.log_alpha.data.fill_(9.0)
    (layer(x).sum() + layer.kl()).backward()
    assert layer.log_alpha.grad.abs().max() == 0
    layer.log_alpha.data.fill_(0.5)
    layer.kl().backward()
    assert layer.log_alpha.grad.abs().max() > 0


def test_clipping_of_the_derived_log_alpha():
    layer = Linear(3, 2, param="additive", clip=(-3, 1), log_alpha=0.0)
    layer.log_sigma2.data.fill_(40.0)
    assert (layer.posterior().log_alpha == 1).all()
    Linear(3, 2, param="zero_mean", clip=(-4, 4))  # has no log alpha that could start outside
    Linear(3, 2, param="additive", clip=(-4, 4), log_sigma=-3.0)


def test_kl_brings_back_a_derived_log_alpha_below_the_clip():
    layer = Linear(3, 2, param="additive", log_sigma=-40.0)
    layer.mu.data.fill_(0.2)
    assert (layer.posterior().log_alpha == -20).all()
    layer.kl().backward()
    torch.testing.assert_close(layer.log_sigma2.grad, torch.full((2, 3), -0.5), atol=1e-4, rtol=0)  # as without a clip
    layer.log_sigma2.data.fill_(-math.inf)  # a removed weight
    layer.zero_grad()
    layer.kl().backward()
    assert (layer.log_sigma2.grad == 0).all()
    layer.log_sigma2.data.fill_(30.0)
    layer.zero_grad()
    layer.kl().backward()
    assert (layer.log_sigma2.grad == 0).all()


def test_alpha_that_underflows_has_a_finite_gradient():
    options = {"clip": None, "log_alpha": -110.0}
    for layer, x in (
        (Linear(3, 2, **options), torch.randn(2, 3)),
        (Conv2d(2, 3, 2, param="neuron", **options), torch.randn(1, 2, 4, 4)),
    ):
        layer(x).sum().backward()
        assert torch.isfinite(layer.log_alpha.grad).all()


def test_clipping():
    layer = Linear(3, 2, param="layer", clip=(-8, 8))
    layer.log_alpha.data.fill_(50.0)
    assert layer.posterior().log_alpha == 8
    torch.testing.assert_close(layer.posterior().variance, math.exp(8) * layer.mu.square())
    free = Linear(3, 2, param="layer", clip=None)
    free.log_alpha.data.fill_(50.0)
    assert free.posterior().log_alpha == 50
