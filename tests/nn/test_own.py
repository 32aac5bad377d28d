"""A parameterization, a prior or a kind of layer of the user's own: one class that registers itself."""

import math
import textwrap
from dataclasses import dataclass

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.distributions import Laplace, Normal

from tests.composing import composed
from tests.nn.refused import assert_refused
from tests.statistics_helper import assert_mean, assert_variance
from varnet import collapse, kl, predicting, variational
from varnet.base.checks import number
from varnet.nn import lrt, priors
from varnet.nn.layers import KINDS, Linear, Variational
from varnet.nn.params import PARAMS, LayerWise, Parameterization
from varnet.nn.priors import PRIORS, Gaussian, Prior, option
from varnet.nn.registry import import_all
from varnet.runs.build import build_model, load_data
from varnet.runs.schema import groups


@pytest.fixture(autouse=True)
def forgotten():
    """What a test registers is gone after it."""
    before = [dict(registry) for registry in (PARAMS, PRIORS, KINDS)]
    yield
    for registry, known in zip((PARAMS, PRIORS, KINDS), before, strict=True):
        registry.clear()
        registry.update(known)


def a_prior() -> type[Prior]:
    @dataclass(frozen=True)
    class LaplacePrior(Prior):
        """One sample of KL(q || Laplace(0, width))."""

        name = "laplace"
        width: float = option(1.0, number(0, above=True))

        def values(self, param: Parameterization, q: nn.Module, shape: torch.Size) -> Tensor:
            posterior = Normal(param.mean(q), param.variance(q).sqrt())
            w = posterior.rsample()
            return posterior.log_prob(w) - Laplace(0.0, self.width).log_prob(w)

    return LaplacePrior


def a_parameterization() -> type[Parameterization]:
    @dataclass(frozen=True, eq=False)
    class Softplus(Parameterization):
        """N(mu, softplus(rho)^2)"""

        name = "softplus"
        alpha_per_weight = True
        rho: float = option(-3.0, number())

        def tensors(self, weight: Tensor) -> dict[str, Tensor]:
            return {"mu": nn.Parameter(weight.detach().clone()), "rho": nn.Parameter(torch.full_like(weight, self.rho))}

        def std(self, q: nn.Module) -> Tensor:
            return nn.functional.softplus(q.rho)

    return Softplus


def test_a_prior_with_an_option():
    a_prior()
    model = variational(nn.Linear(30, 20), param="weight", prior="laplace", width=0.5, log_alpha=-1.0)
    assert model.prior.width == 0.5
    kl(model).backward()
    assert model.mu.grad.isfinite().all() and "width" in groups()["prior"]
    assert_refused(lambda: Linear(2, 2, prior="laplace", width=-1), "width", "=-1", "above 0")
    assert_refused(lambda: Linear(2, 2, prior="laplace", param="zero_mean", noise="uniform"), "prior", "noise=uniform")


def test_options_of_other_priors_are_looked_at_and_left_out():
    a_prior()
    assert Linear(2, 2, prior="ard", width=2.0, nu=1.0, threshold=None).prior == priors.ARD()
    assert_refused(lambda: Linear(2, 2, prior="ard", width=-2.0), "width", "=-2.0", "above 0")
    assert_refused(lambda: Linear(2, 2, prior="laplace", breadth=2.0), "breadth", "is not known", "width")


def test_a_parameterization_with_an_option():
    a_parameterization()
    layer = Linear(6, 4, param="softplus", rho=0.5)
    x = torch.randn(1, 6)
    std = math.log1p(math.exp(0.5))
    with torch.no_grad():
        samples = layer(x.expand(20_000, -1))
        assert_mean(samples, (x @ layer.mu.T + layer.bias)[0])
        assert_variance(samples, (x.square().sum() * std**2).expand(4))
    torch.testing.assert_close(layer.posterior().log_alpha, 2 * math.log(std) - layer.mu.detach().square().log())
    for prior in ("loguniform", "student", "ard", "gaussian", "none"):
        assert Linear(6, 4, param="softplus", prior=prior).kl().isfinite()
    assert "rho" in groups()["param"]


def test_a_parameterization_of_ones_own_collapses():
    a_parameterization()
    layer = Linear(6, 4, param="softplus", rho=8.0)
    assert collapse(nn.Sequential(layer))[0].collapsed
    assert set(dict(layer.named_parameters())) == {"sigma", "bias"}


def test_an_option_that_the_model_has_too_is_refused():
    a_prior()
    cfg = composed("model=fc", "dataset=digits")
    OmegaConf.update(cfg, "prior", {"name": "laplace", "width": 2.0}, merge=False)
    assert_refused(lambda: build_model(cfg, load_data(cfg)), "prior.width", "rename it in prior=laplace")


def test_a_file_in_the_folder_is_enough(tmp_path, monkeypatch):
    source = """
        from dataclasses import dataclass
        from varnet.nn.priors import ARD, option

        @dataclass(frozen=True)
        class TwiceARD(ARD):
            name = "twice_ard"
            times: float = option(2.0)

            def values(self, param, q, shape):
                return self.times * super().values(param, q, shape)
    """
    (tmp_path / "twice_ard.py").write_text(textwrap.dedent(source))
    monkeypatch.setattr(priors, "__path__", [*priors.__path__, str(tmp_path)])
    import_all(priors.__name__, priors.__path__)
    layer = Linear(3, 2, prior="twice_ard")
    torch.testing.assert_close(layer.kl(), 2 * Linear(3, 2, prior="ard").kl())
    assert Linear(3, 2, prior="twice_ard", times=3.0).kl() > layer.kl()


def test_a_kind_of_layer():
    class Conv1d(Variational, replaces=nn.Conv1d):
        """A convolution of rows, as one of images of height 1."""

        def take_shape(self, module: nn.Conv1d) -> None:
            self.stride = module.stride

        def check_input(self, x: Tensor) -> None:
            pass

        def sample(self, x: Tensor) -> Tensor:
            mean, variance, _ = self.posterior()
            return lrt.conv2d(x[:, :, None], mean[:, :, None], variance[:, :, None], self.bias)[:, :, 0]

        def product(self, x: Tensor, weight: Tensor) -> Tensor:
            return nn.functional.conv1d(x, weight, self.bias, self.stride)

        def shape_repr(self) -> str:
            return ""

    plain = nn.Sequential(nn.Conv1d(3, 4, 2), nn.ReLU())
    x = torch.randn(5, 3, 9)
    expected = plain(x)
    model = variational(plain, log_alpha=-1.0)
    with predicting(model, "deterministic"):
        assert torch.equal(model(x), expected)
    assert not torch.equal(model(x), model(x))


# ---- names that are in use


def named(tensor: str) -> Parameterization:
    class Named(LayerWise):
        def tensors(self, weight: Tensor) -> dict[str, Tensor]:
            return {**super().tensors(weight), tensor: nn.Parameter(torch.zeros(()))}

    return Named()


@pytest.mark.parametrize(
    "tensor",
    ["state", "param", "prior", "weight", "bias", "sample", "kl", "in_features", "held_noise", "training", "of_param"],
)
def test_a_tensor_may_not_take_a_name_of_the_layer(tensor):
    assert_refused(lambda: Linear(3, 2, param=named(tensor)), None, f"calls a tensor {tensor!r}", "use another one")


def test_a_prior_may_not_take_the_name_of_what_q_learns():
    class Clashing(Gaussian):
        def tensors(self, weight: Tensor) -> dict[str, Tensor]:
            return {"log_alpha": nn.Parameter(torch.zeros(()))}

    assert_refused(lambda: Linear(3, 2, prior=Clashing()), None, "prior=gaussian calls a tensor 'log_alpha'")


def test_two_classes_of_one_name():
    a_prior()
    a_prior()  # the same class again, as in a notebook whose cell is run twice

    def another():
        class Other(Prior):
            name = "laplace"

    assert_refused(another, None, "prior=laplace is registered already", "use another name")


def test_one_option_of_both():
    @dataclass(frozen=True)
    class Clashing(Prior):
        name = "clashing"
        clip: float = option(1.0)

    assert_refused(lambda: Linear(3, 2, prior="clashing", clip=(-1, 1)), "clip", "param=layer", "prior=clashing")
    assert Linear(3, 2, prior="ard", clip=(-9, 9)).param.clip == (-9, 9)
