"""Every KL against quadrature or Monte Carlo: its value, its sign, its limit and its gradient."""

import itertools
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import torch
from torch.distributions import Normal, kl_divergence

from tests.nn.refused import assert_refused
from tests.statistics_helper import assert_mean
from varnet.nn import dawson
from varnet.nn.layers import Linear
from varnet.nn.priors import ARD, C, ard, gaussian, loguniform, student

GRID = np.linspace(-8, 12, 41)
GAUSSIAN_PARAMS = ("zero_mean", "layer", "neuron", "weight", "additive", "gaussian_dropout")


def quadrature(log_alpha: float) -> float:
    """E log|alpha^-1/2 + eps| + C in 64 bits, the integrable singularity at an end of the interval."""
    shift = math.exp(-log_alpha / 2)

    def integrand(distance: float, sign: int) -> float:
        return math.log(distance) * math.exp(-((sign * distance - shift) ** 2) / 2) / math.sqrt(2 * math.pi)

    total = 0.0
    for sign in (1, -1):
        low, high = max(0.0, sign * shift - 12), max(0.0, sign * shift + 12)
        points = sorted({low, min(high, low + 1e-3), min(high, low + 1), high})
        for a, b in itertools.pairwise(points):
            total += scipy.integrate.quad(integrand, a, b, args=(sign,), epsabs=1e-12, epsrel=1e-12, limit=200)[0]
    return total + (np.euler_gamma + math.log(2)) / 2


REFERENCE = torch.tensor([quadrature(x) for x in GRID], dtype=torch.double)
LOG_ALPHA = torch.tensor(GRID, dtype=torch.double)


@pytest.mark.parametrize("dtype, tolerance", [(torch.double, 1e-9), (torch.float, 1e-6)])
def test_exact_equals_quadrature(dtype, tolerance):
    value = loguniform.kl(LOG_ALPHA.to(dtype), "exact").double()
    assert (value - REFERENCE).abs().max() < tolerance


def test_exact_equals_quadrature_relatively():
    """Large alpha is where the papers' KLs matter: 400,000 weights of KL 1e-5 each."""
    value = loguniform.kl(LOG_ALPHA, "exact")
    assert ((value - REFERENCE) / REFERENCE).abs().max() < 1e-6


def test_approx_is_within_its_error():
    error = (loguniform.kl(LOG_ALPHA, "approx") - REFERENCE).abs()
    assert error.max() < 0.0095
    wide = torch.linspace(-30, 30, 60001, dtype=torch.double)
    difference = loguniform.kl(wide, "approx") - loguniform.kl(wide, "exact")
    assert 0.0090 < difference.abs().max() < 0.0095  # the docstring's 0.0094


def test_mc_is_unbiased():
    samples = loguniform.kl(LOG_ALPHA.expand(400_000, -1), "mc")
    assert_mean(samples, REFERENCE)


def test_mc_gradient_is_unbiased():
    log_alpha = torch.tensor([-6.0, -1.0, 0.0, 2.0, 6.0], dtype=torch.double)
    many = log_alpha.repeat(400_000, 1).requires_grad_()
    (gradient,) = torch.autograd.grad(loguniform.kl(many, "mc").sum(), many)
    u = (-log_alpha / 2).exp() / math.sqrt(2)
    assert_mean(gradient, -u * torch.from_numpy(scipy.special.dawsn(u.numpy())))


def test_exact_after_an_evaluation_and_with_nan():
    dawson.coefficients.cache_clear()
    layer = Linear(3, 2, estimator="exact")
    with torch.inference_mode():
        layer.kl()
    layer.kl().backward()
    assert torch.isfinite(layer.log_alpha.grad)
    assert loguniform.kl(torch.tensor([math.nan, 0.0]), "exact").isnan().tolist() == [True, False]


def test_nu_reaches_the_kl_of_a_layer():
    values = []
    for nu in (1e-16, 10.0):
        layer = Linear(3, 2, prior="student", nu=nu)
        layer.mu.data.fill_(0.1)
        torch.manual_seed(0)
        values.append(layer.kl().item())
    assert values[1] > values[0] + 10


@pytest.mark.parametrize("estimator", ["approx", "exact"])
def test_loguniform_is_positive_decreasing_and_vanishes(estimator):
    log_alpha = torch.linspace(-40, 40, 20_001, dtype=torch.double)
    value = loguniform.kl(log_alpha, estimator)
    assert (value > 0).all()
    assert (value.diff() < 0).all()
    large = torch.tensor([14.0, 18.0, 25.0, 30.0], dtype=torch.double)
    # 1/(2 alpha); the approximation's logistic term still adds 0.63 alpha^-1.487 exp(-1.87)
    torch.testing.assert_close(
        loguniform.kl(large, estimator) * 2 * large.exp(),
        torch.ones(4, dtype=torch.double),
        rtol=0 if estimator == "exact" else 2e-3, atol=1e-6 if estimator == "exact" else 0,
    )  # fmt: skip
    assert loguniform.kl(torch.tensor(math.inf), estimator) == 0


def test_small_alpha_tends_to_the_entropy_term():
    """KL -> -log(alpha)/2 + C as alpha -> 0: the sign that public code has had wrong."""
    value = loguniform.kl(torch.tensor(-30.0, dtype=torch.double), "exact")
    torch.testing.assert_close(value.item(), 15 + (np.euler_gamma + math.log(2)) / 2, rtol=0, atol=1e-12)


def test_exact_gradient():
    inside = torch.linspace(-36, 19, 200, dtype=torch.double, requires_grad=True)
    outside = torch.tensor([-60.0, -40.0, 21.0, 30.0], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(loguniform.exact, inside)
    assert torch.autograd.gradcheck(loguniform.exact, outside)
    (slope,) = torch.autograd.grad(loguniform.exact(inside).sum(), inside)
    u = (-inside.detach() / 2).exp() / math.sqrt(2)
    torch.testing.assert_close(slope, -u * torch.from_numpy(scipy.special.dawsn(u.numpy())), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("function", [loguniform.approx, ard.kl])
def test_gradcheck(function):
    assert torch.autograd.gradcheck(function, torch.linspace(-20, 20, 50, dtype=torch.double, requires_grad=True))


def test_ard_equals_torch_distributions():
    """Eq. (11) lacks the factor 1/2."""
    mu = torch.full_like(LOG_ALPHA, 0.7)
    alpha = LOG_ALPHA.exp()
    expected = kl_divergence(Normal(mu, alpha.sqrt() * mu), Normal(0.0, (alpha + 1).sqrt() * mu))
    torch.testing.assert_close(ard.kl(LOG_ALPHA), expected, rtol=1e-9, atol=1e-12)
    assert (ard.kl(LOG_ALPHA) > 0).all() and (ard.kl(LOG_ALPHA).diff() < 0).all()


def test_gaussian_equals_torch_distributions_and_is_0_at_the_prior():
    mean, std = torch.randn(50, dtype=torch.double), torch.rand(50, dtype=torch.double) + 0.1
    expected = kl_divergence(Normal(mean, std), Normal(torch.zeros_like(mean), 0.3))
    torch.testing.assert_close(gaussian.kl(mean, std**2, 0.3), expected)
    at_prior = gaussian.kl(torch.zeros(3, dtype=torch.double), torch.full((3,), 0.09, dtype=torch.double), 0.3)
    torch.testing.assert_close(at_prior, torch.zeros(3, dtype=torch.double), rtol=0, atol=1e-12)


def test_student_tends_to_loguniform():
    mu = torch.full((200_000, 5), 0.05, dtype=torch.double)
    log_alpha = torch.tensor([-4.0, -1.0, 0.0, 2.0, 6.0], dtype=torch.double)
    limit = loguniform.kl(log_alpha, "exact")
    assert_mean(student.kl(mu, log_alpha.exp() * mu**2, nu=1e-16), limit)
    gaps = [(student.kl(mu, log_alpha.exp() * mu**2, nu=nu).mean(0) - limit).abs().max() for nu in (1e-2, 1e-4, 1e-8)]
    assert gaps[0] > gaps[1] > gaps[2]


def test_student_equals_its_integral():
    nu, mean, variance = 0.1, 0.3, 0.2

    def integrand(eps):
        w = mean + math.sqrt(variance) * eps
        return 0.5 * (nu + 1) * math.log(nu + w * w) * math.exp(-eps * eps / 2) / math.sqrt(2 * math.pi)

    expected = scipy.integrate.quad(integrand, -12, 12)[0] - 0.5 * math.log(variance) + C
    full = torch.full((500_000,), 1.0, dtype=torch.double)
    assert_mean(student.kl(mean * full, variance * full, nu), expected)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("log_alpha", [-6.0, -0.5, 0.5, 4.0, 9.0])
def test_student_by_steins_identity_has_the_slope_of_its_limit_and_little_noise(log_alpha, tied):
    """As nu -> 0 the KL is the log-uniform one, a function of alpha whose slope is known."""
    mean = torch.full((400_000,), 0.3, dtype=torch.double, requires_grad=True)
    log_variance = torch.full_like(mean, log_alpha + 2 * math.log(0.3)).requires_grad_()
    value = student.kl(mean, log_variance.exp(), gradient="stein", tied=tied)
    by_mean, by_log_variance = torch.autograd.grad(value.sum(), (mean, log_variance))
    slope = float(dawson.slope(np.array(log_alpha)))
    assert_mean(value.detach(), loguniform.kl(torch.tensor(log_alpha, dtype=torch.double), "exact"))
    assert_mean(by_log_variance, slope)
    assert_mean(0.3 * by_mean, -2 * slope)
    assert by_log_variance.std() < 1


@pytest.mark.parametrize("param", ["layer", "neuron", "weight"])
def test_students_kl_does_not_move_means_that_carry_their_noise(param):
    layer = Linear(20, 30, param=param, prior="student", gradient="stein", log_alpha=3.0)
    layer.kl().backward()
    assert (layer.mu.grad * layer.mu).abs().max() < 1e-3  # of the order of nu / w^2
    assert layer.log_alpha.grad.abs().max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("variance", [0.2, 0.001])  # noise above the mean, and below
@pytest.mark.parametrize("nu", [0.5, 1e3, 1e6])
def test_slopes_by_steins_identity_for_a_large_nu(nu, variance, tied, dtype):
    """As in float64, and with little noise: f(w) is a large constant there, whose rounding must not be in the slope."""
    mean, log_variance = 0.3, math.log(variance)

    def integral(mean, log_variance):
        def integrand(eps):
            w = mean + math.exp(log_variance / 2) * eps
            return 0.5 * (nu + 1) * math.log1p(w * w / nu) * math.exp(-eps * eps / 2) / math.sqrt(2 * math.pi)

        return scipy.integrate.quad(integrand, -12, 12, epsabs=1e-12)[0] - 0.5 * log_variance

    h = 1e-4
    expected_mean = (integral(mean + h, log_variance) - integral(mean - h, log_variance)) / (2 * h)
    expected_log = (integral(mean, log_variance + h) - integral(mean, log_variance - h)) / (2 * h)
    means = torch.full((400_000,), mean, dtype=dtype, requires_grad=True)
    logs = torch.full_like(means, log_variance).requires_grad_()
    found = torch.autograd.grad(student.kl(means, logs.exp(), nu, "stein", tied).sum(), (means, logs))
    assert_mean(found[0], expected_mean)
    assert_mean(found[1], expected_log)
    assert found[0].std() < 10 and found[1].std() < 1


def kl_samples(layer: Linear, n: int = 400) -> torch.Tensor:
    return torch.stack([layer.kl() for _ in range(n)])


@pytest.mark.parametrize("name", ["loguniform", "student", "ard", "gaussian"])
def test_layer_equals_weight_with_equal_alphas(name):
    options = {"prior": name, "log_alpha": 1.3, "dtype": torch.double}
    shared = Linear(7, 5, param="layer", **options)
    weight = Linear(7, 5, param="weight", **options)
    neuron = Linear(7, 5, param="neuron", **options)
    additive = Linear(7, 5, param="additive", **options)
    fixed = Linear(7, 5, param="gaussian_dropout", **options)
    for other in (weight, neuron, additive, fixed):
        other.mu.data.copy_(shared.mu.data)
    additive.log_sigma2.data.copy_(1.3 + shared.mu.data.square().log())
    values = []
    for layer in (shared, weight, neuron, additive, fixed):
        torch.manual_seed(1)  # the student prior draws one sample per weight
        values.append(layer.kl().detach())
    torch.testing.assert_close(torch.stack(values), values[0].expand(5))
    assert values[0] > 0 or name == "student"


def test_kl_is_a_sum():
    small, large = (Linear(n, 5, param="layer", log_alpha=-1.0) for n in (10, 40))
    torch.testing.assert_close(large.kl().detach(), 4 * small.kl().detach())


@pytest.mark.parametrize("learn", ["sigma", "log_sigma"])
@pytest.mark.parametrize("name", ["loguniform", "ard"])
@pytest.mark.parametrize("estimator", ["approx", "exact", "mc"])
def test_zero_mean_kl_is_exactly_0(name, estimator, learn):
    layer = Linear(6, 4, param="zero_mean", prior=name, estimator=estimator, learn=learn)
    assert layer.kl().item() == 0.0


def test_zero_mean_with_other_priors():
    layer = Linear(6, 4, param="zero_mean", prior="gaussian", scale=0.5)
    expected = kl_divergence(Normal(0.0, layer.sigma.detach().abs()), Normal(0.0, 0.5)).sum()
    torch.testing.assert_close(layer.kl().detach(), expected)
    layer = Linear(6, 4, param="zero_mean", prior="student")
    assert_mean(kl_samples(layer), 0.0)  # scale-invariant in the limit


@pytest.mark.parametrize("param", GAUSSIAN_PARAMS)
@pytest.mark.parametrize(
    "options",
    [
        {"prior": "loguniform"},
        {"prior": "student"},
        {"prior": "student", "gradient": "stein"},
        {"prior": "ard"},
        {"prior": "gaussian"},
    ],
)
def test_every_prior_with_every_parameterization_has_a_finite_gradient(param, options):
    for log_alpha in (-20.0, -5.0, 20.0):
        layer = Linear(6, 4, param=param, log_alpha=log_alpha, **options)
        with torch.no_grad():
            first = next(p for p in layer.parameters() if p.shape == (4, 6))
            first[0, 0] = 0.0
        layer.kl().backward() if layer.kl().requires_grad else None
        assert torch.isfinite(layer.kl())
        for p in layer.parameters():
            assert p.grad is None or torch.isfinite(p.grad).all()


def test_mc_and_student_survive_a_draw_at_the_singularity(monkeypatch):
    monkeypatch.setattr(torch, "randn_like", lambda x: -torch.ones_like(x))
    log_alpha = torch.zeros(3, requires_grad=True)
    value = loguniform.kl(log_alpha, "mc")
    value.sum().backward()
    assert torch.isfinite(value).all() and torch.isfinite(log_alpha.grad).all()
    mean = torch.ones(3, requires_grad=True)
    for gradient in ("sample", "stein"):
        mean.grad = None
        value = student.kl(mean, torch.ones(3), gradient=gradient)
        value.sum().backward()
        assert torch.isfinite(value).all() and torch.isfinite(mean.grad).all()


def test_learned_scale_finds_the_second_moment():
    layer = Linear(30, 20, param="additive", prior="gaussian", scale=1.0, learn_scale=True)
    optimizer = torch.optim.Adam([layer.log_scale], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        layer.kl().backward()
        optimizer.step()
    mean, variance, _ = layer.posterior()
    torch.testing.assert_close(layer.log_scale.exp(), (mean.square() + variance).mean().sqrt(), rtol=1e-3, atol=0)
    assert "log_scale" in layer.state_dict()


def test_no_prior_no_kl():
    assert Linear(3, 2, param="layer", prior="none").kl().item() == 0.0
    assert Linear(3, 2, param="deterministic").kl().item() == 0.0


@pytest.mark.parametrize(
    "options, key, words",
    [
        ({"prior": "laplace"}, "prior", ["=laplace", "ard, gaussian, loguniform, none, student"]),
        ({"estimator": "best"}, "estimator", ["=best", "approx, exact, mc"]),
        ({"prior": "gaussian", "scale": 0}, "scale", ["=0", "above 0"]),
        ({"prior": "gaussian", "learn_scale": "no"}, "learn_scale", ["=no", "true, false"]),
        ({"prior": ARD(), "nu": 1.0}, "prior", ["ARD()", "give nu with a name such as ard"]),
        ({"prior": "ard", "nu": -1.0}, "nu", ["=-1.0", "above 0"]),
        ({"prior": "student", "nu": -1.0}, "nu", ["=-1.0", "above 0"]),
        ({"prior": "student", "gradient": "own"}, "gradient", ["=own", "sample, stein"]),
        ({"prior": "gaussian", "param": "zero_mean", "noise": "bernoulli"}, "prior", ["=gaussian", "noise=bernoulli"]),
        ({"prior": "student", "param": "zero_mean", "noise": "uniform"}, "prior", ["=student", "noise=uniform"]),
    ],
)
def test_wrong_priors(options, key, words):
    assert_refused(lambda: Linear(3, 2, **options), key, *words)


def test_exact_is_cheap(benchmark_elements=400_000):
    """Not a timing: one table look-up per weight, no quadrature, and no graph of hundreds of nodes."""
    log_alpha = torch.randn(benchmark_elements, requires_grad=True)
    value = loguniform.kl(log_alpha, "exact")
    nodes, todo = set(), [value.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            todo += [parent for parent, _ in node.next_functions]
    assert len(nodes) < 20


def test_prior_is_plain_data():
    assert ARD() == ARD() and student.Student(nu=1.0) != student.Student()
