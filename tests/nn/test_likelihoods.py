"""Likelihoods against torch.distributions; what does not fit is refused; the variance of the noise is learned."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import distributions as known
from torch import nn

from tests.nn.refused import assert_refused
from tests.statistics_helper import Z, assert_mean
from varnet import kl, negative_elbo, variational
from varnet.nn.likelihoods import LIKELIHOODS, Gaussian, LearnedVariance, Likelihood, likelihood_of, standardised

N, D = 50, 3
OUT = torch.randn(N, 2 * D, generator=torch.Generator().manual_seed(1)).double()
REAL = torch.randn(N, D, generator=torch.Generator().manual_seed(2)).double()
LABELS = (REAL > 0).double()
COUNTS = torch.arange(N * D).reshape(N, D) % 5
CASES = {  # likelihood, outputs, targets, the same distribution of torch
    "categorical": ("categorical", OUT, torch.arange(N) % 6, known.Categorical(logits=OUT)),
    "bernoulli": ("bernoulli", OUT[:, :D], LABELS, known.Bernoulli(logits=OUT[:, :D])),
    "gaussian": (Gaussian(variance=0.3), OUT[:, :D], REAL, known.Normal(OUT[:, :D], math.sqrt(0.3))),
    "predicted": (Gaussian(variance="predicted"), OUT, REAL, known.Normal(OUT[:, :D], (OUT[:, D:] / 2).exp())),
    "poisson": ("poisson", OUT[:, :D], COUNTS, known.Poisson(OUT[:, :D].exp())),
}


@pytest.mark.parametrize("case", CASES)
def test_a_likelihood_is_the_distribution_of_torch(case):
    name, out, target, wanted = CASES[case]
    likelihood = likelihood_of(name)
    log_prob = wanted.log_prob(target)
    log_prob = log_prob.sum(1) if log_prob.dim() > 1 else log_prob
    torch.testing.assert_close(likelihood.log_prob(out, target), log_prob)
    if not likelihood.classes:
        torch.testing.assert_close(likelihood.mean_of(out), wanted.mean)
        torch.testing.assert_close(likelihood.variance_of(out), wanted.variance)


@pytest.mark.parametrize("case", CASES)
def test_the_data_term_of_the_objective_is_n_times_the_mean(case):
    """Whole numbers and floats of counts and labels alike, and gradients of the outputs."""
    name, out, target, wanted = CASES[case]
    model, out = variational(nn.Linear(2, 2)), out.clone().requires_grad_()
    loss = negative_elbo(model, out, target, 1000, beta=0.5, likelihood=name)
    expected = -1000 * wanted.log_prob(target).sum() / N + 0.5 * kl(model)
    torch.testing.assert_close(loss, expected.to(loss.dtype))
    (grad,) = torch.autograd.grad(loss, out)
    assert grad.isfinite().all() and grad.abs().max() > 0
    if case in ("bernoulli", "poisson"):
        other = target.bool() if case == "bernoulli" else target.float()
        torch.testing.assert_close(negative_elbo(model, out, other, 1000, 0.5, likelihood=name), loss)


def test_distribution_functions():
    mean, std, at = OUT[:, :D], (OUT[:, D:] / 2).exp(), REAL
    below, up_to = Gaussian(variance="predicted").cdf(OUT, at)
    assert torch.equal(below, up_to)
    torch.testing.assert_close(below, known.Normal(mean, std).cdf(at))
    below, up_to = likelihood_of("poisson").cdf(mean, COUNTS.double())
    mass = known.Poisson(mean.exp()[..., None]).log_prob(torch.arange(5.0).double()).exp().cumsum(-1)
    torch.testing.assert_close(up_to, mass.gather(-1, COUNTS[..., None])[..., 0])
    torch.testing.assert_close(up_to - below, known.Poisson(mean.exp()).log_prob(COUNTS.double()).exp())
    assert torch.equal(below[COUNTS == 0], torch.zeros_like(below[COUNTS == 0]))


def test_any_function_is_a_likelihood():
    scale = torch.tensor(0.7).double()
    laplace = known.Laplace(OUT[:, :D], scale)
    loss = negative_elbo(
        nn.ReLU(), OUT[:, :D], REAL, 10, likelihood=lambda out, t: known.Laplace(out, scale).log_prob(t).sum(1)
    )
    torch.testing.assert_close(loss, -10 * laplace.log_prob(REAL).sum(1).mean())
    smoothed = negative_elbo(
        nn.ReLU(), OUT, OUT.softmax(1), 10, likelihood=lambda out, t: -F.cross_entropy(out, t, reduction="none")
    )
    torch.testing.assert_close(smoothed, 10 * F.cross_entropy(OUT, OUT.softmax(1)))


def loss_of(out: tuple, target: torch.Tensor, likelihood="categorical"):
    return negative_elbo(nn.ReLU(), torch.zeros(out), target, 10, likelihood=likelihood)


floats, whole = torch.zeros, lambda *shape: torch.zeros(shape, dtype=torch.long)
PREDICTED = Gaussian(variance="predicted")


@pytest.mark.parametrize(
    ("out", "target", "likelihood", "words"),
    [
        ((8, 1), floats(8, 1), "categorical", ["float32 of shape (8, 1)", "categorical", "likelihood=gaussian"]),
        ((8, 3), floats(8), "categorical", ["whole numbers of classes"]),
        ((8, 3), floats(8, 3), "categorical", ["whole numbers of classes"]),
        ((8, 3), whole(8).bool(), "categorical", ["use target.long()"]),
        ((8, 1), whole(8), "categorical", ["two classes or more: use likelihood=bernoulli"]),
        ((8, 3), whole(8, 1), "categorical", ["one class for each object, (N,) for logits (N, C)"]),
        ((8, 3), whole(7), "categorical", ["(8, 3)", "(7,)"]),
        ((8, 1), floats(8), "gaussian", ["float32 of shape (8,)", "outputs have shape (8, 1)", "(N, 1)"]),
        ((8,), floats(8, 1), "gaussian", ["outputs have shape (8,)"]),
        ((8, 1), whole(8, 1), "gaussian", ["target.float(), or likelihood=categorical"]),
        ((8, 1), floats(8, 1) + math.nan, "gaussian", ["not finite: replace or leave them out"]),
        ((8, 1), floats(8, 1), PREDICTED, ["outputs have shape (8, 1): give means and log variances, (8, 2)"]),
        ((8, 2), floats(8), PREDICTED, ["(N, 2) for targets (N, 1)"]),
        ((8, 1), floats(8, 1), Gaussian(variance="learned"), ["(8, 2), e.g. by varnet.nn.LearnedVariance"]),
        ((8, 1), floats(8, 1) - 1, "poisson", ["some values are no counts: use 0, 1, 2"]),
        ((8, 1), floats(8, 1) + 0.5, "poisson", ["no counts"]),
        ((8, 1), floats(8), "poisson", ["outputs have shape (8, 1)"]),
        ((8, 2), floats(8, 2) + 2, "bernoulli", ["not in [0, 1]: use 0 and 1"]),
        ((8, 2), whole(8), "bernoulli", ["outputs have shape (8, 2)"]),
    ],
)  # fmt: skip
def test_a_target_that_does_not_fit_is_refused(out, target, likelihood, words):
    assert_refused(lambda: loss_of(out, target, likelihood), "target", "does not fit likelihood=", *words)


def test_likelihoods_and_options_that_are_not_there():
    assert_refused(
        lambda: likelihood_of("normal"), "likelihood", "use one of bernoulli, categorical, gaussian, poisson"
    )
    assert_refused(lambda: likelihood_of("gaussian", variance=0), "variance", "use learned, predicted, or a finite")
    assert_refused(lambda: likelihood_of("poisson", variance=1), "variance", "no option of likelihood=poisson", "none")
    assert_refused(lambda: likelihood_of("gaussian", width=1), "width", "(it has: variance, standardise): leave it out")
    assert_refused(lambda: likelihood_of(Gaussian(), variance=1), "likelihood", "has its options")
    assert_refused(lambda: loss_of((8, 1), floats(8, 1), nn.MSELoss()), None, "value of shape () for 8", "shape (8,)")
    assert_refused(lambda: loss_of((8, 1), floats(8, 1), lambda out, t: 0.0), None, "value of type float", "shape (8,)")
    assert_refused(
        lambda: negative_elbo(nn.ReLU(), whole(8, 1), floats(8, 1), 9, 1.0, "gaussian"), None, "return floats"
    )
    assert likelihood_of(Gaussian, variance=2.0) == likelihood_of("gaussian", variance=2.0) == Gaussian(2.0)
    with pytest.raises(ValueError, match="registered already"):
        type("Second", (Likelihood,), {"name": "poisson"})
    assert set(LIKELIHOODS) == {"bernoulli", "categorical", "gaussian", "poisson"}


def test_in_half_precision_the_data_term_does_not_overflow():
    out, target = torch.full((4, 1), 200.0).half(), torch.zeros(4, 1)
    assert float(negative_elbo(nn.ReLU(), out, target, 60_000, likelihood="gaussian")) == pytest.approx(1.2e9, rel=1e-3)


def test_in_the_units_of_the_targets():
    """Outputs are standardised; densities, moments and probabilities are those of the targets as they are."""
    train = 40 + 7 * torch.randn(200, D, generator=torch.Generator().manual_seed(3)).double()
    shift, scale = train.mean(0), train.std(0, correction=0)
    found, target = Gaussian(variance="predicted").fitted(train), 40 + 5 * REAL
    wanted = known.Normal(shift + scale * OUT[:, :D], scale * (OUT[:, D:] / 2).exp())
    torch.testing.assert_close(found.log_prob(OUT, target), wanted.log_prob(target).sum(1))
    torch.testing.assert_close(found.mean_of(OUT), wanted.mean)
    torch.testing.assert_close(found.variance_of(OUT), wanted.variance)
    torch.testing.assert_close(found.cdf(OUT, target)[0], wanted.cdf(target))
    assert (found.name, found.outputs(D), found.head(D)) == ("gaussian", 2 * D, None)
    assert Gaussian(standardise=False).fitted(train) == Gaussian(standardise=False)
    assert_refused(
        lambda: standardised(Gaussian(), torch.full((5, 1), 3.0)), "target", "all training targets are the same"
    )
    assert_refused(lambda: found.check(OUT[:, :D], target), "target", "means and log variances")


def fit(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, likelihood) -> None:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=steps, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = negative_elbo(model, model(x), y, len(x), likelihood=likelihood)
        value.backward()
        return value

    optimizer.step(loss)


def test_a_learned_variance_is_that_of_the_noise():
    """Without random weights the optimum is the mean squared residual; its standard error is variance sqrt(2 / N)."""
    n, noise = 2000, torch.tensor([0.09, 4.0])
    x = torch.randn(n, 2)
    y = x @ torch.tensor([[1.0, -1.0], [0.5, 2.0]]) + noise.sqrt() * torch.randn(n, 2)
    model = nn.Sequential(nn.Linear(2, 2), LearnedVariance(2))
    fit(model, x, y, 25, Gaussian(variance="learned"))
    learned = model[1].log_variance.detach().exp()
    residuals = (model[0](x) - y).square().mean(0).detach()
    torch.testing.assert_close(learned, residuals, rtol=1e-3, atol=0)
    assert ((learned - noise).abs() < Z * noise * math.sqrt(2 / n)).all()


def evidence_optimum(t: torch.Tensor) -> tuple[float, float, float]:
    """Posterior mean and variance of w and the variance of the noise that has the largest evidence, of t = w + noise
    with w ~ N(0, 1), by EM."""
    n, variance = len(t), 1.0
    for _ in range(200):
        posterior = 1 / (1 + n / variance)
        mean = float(posterior * t.sum() / variance)
        variance = float((t - mean).square().mean()) + posterior
    return mean, posterior, variance


def test_a_learned_variance_beside_random_weights_is_that_of_the_evidence():
    """In this conjugate model the best q is the posterior, and the best variance for it that of the largest evidence:
    there the gradient of the negative ELBO, over noise samples, is 0."""
    n, groups, repeats = 30, 100, 20
    t = (0.8 + 0.5 * torch.randn(n)).double()
    mean, posterior, variance = evidence_optimum(t)
    scan = torch.linspace(math.log(variance) - 1, math.log(variance) + 1, 201).double().exp()
    evidence = [known.MultivariateNormal(torch.zeros(n).double(), v * torch.eye(n) + torch.ones(n, n)) for v in scan]
    best = scan[torch.stack([one.log_prob(t) for one in evidence]).argmax()]
    assert abs(math.log(best / variance)) <= 0.02  # two steps of the scan
    layer = variational(nn.Linear(1, 1, bias=False), param="additive", prior="gaussian").double()
    model = nn.Sequential(layer, LearnedVariance(1, variance).double())
    layer.mu.data.fill_(mean)
    layer.log_sigma2.data.fill_(math.log(posterior))
    x, target = torch.ones(n * repeats, 1).double(), t.repeat(repeats)[:, None]
    parameters = (layer.mu, layer.log_sigma2, model[1].log_variance)
    grads = []
    for _ in range(groups):
        loss = negative_elbo(model, model(x), target, n, likelihood=Gaussian(variance="learned"))
        grads.append(torch.stack([g.reshape(()) for g in torch.autograd.grad(loss, parameters)]))
    assert_mean(torch.stack(grads), 0.0)
