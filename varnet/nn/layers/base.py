"""A layer with random weights (paper eqs. 4, 39-42). What `forward` does is one state per layer (state.py), which
train() and eval() do not change. `predicting(model, mode)` sets it on a whole model for a `with` block.
"""

from typing import Any

import torch
from torch import Tensor, nn

from varnet.base.checks import SWITCH
from varnet.nn import lrt_fast as local
from varnet.nn.layers.parts import Parted, translate
from varnet.nn.layers.state import Held, Posterior, State
from varnet.nn.noise import unit_noise
from varnet.nn.options import made
from varnet.nn.params import Parameterization, ZeroMean
from varnet.nn.priors import Prior

KINDS: "dict[type[nn.Module], type[Any]]" = {}  # a layer of torch -> the one that takes its place


class Variational(Parted, Held):
    """A linear map with random weights. A kind of layer, Linear say, tells which map, and which inputs it takes."""

    param: Parameterization
    prior: Prior
    weight_shape: torch.Size
    of_param: tuple[str, ...]  # names of the tensors that the parameterization reads back
    of_prior: tuple[str, ...]  # names of those that the prior learns
    bias: Tensor | None
    output_axis = 0  # of the weights: along which an output unit is another index
    shared = False  # another layer may learn the same tensors: tied weights
    alpha_in_std = False  # an alpha for each output unit has no place in the product (transposed convolutions)

    def __init_subclass__(cls, replaces: type[nn.Module] | None = None, **kwargs: object) -> None:
        """Register a kind of layer: `variational` puts it in the place of the layers of torch that it replaces."""
        super().__init_subclass__(**kwargs)
        if replaces is not None:
            KINDS[replaces] = cls

    def _adopt(self, module: Any, param: str | Parameterization, prior: str | Prior, options: dict[str, Any]) -> None:
        """Take over the weights of a deterministic layer: they become the means."""
        nn.Module.__init__(self)
        random_bias = SWITCH("random_bias", options.pop("random_bias", False))
        self.param, self.prior = made(param, prior, options)
        self.weight_shape = module.weight.shape
        self.begin_state()
        self.take_shape(module)
        self.of_param = self._register(f"param={self.param.name}", self.param.tensors_of(self, module.weight))
        self.of_prior = self._register(f"prior={self.prior.name}", self.prior.tensors(module.weight))
        bias = getattr(module, "bias", None)
        if bias is None or not random_bias:
            self.register_parameter("bias", bias)
        else:
            from varnet.nn.layers.tensor import RandomTensor  # which is a layer itself

            self.add_part("bias", RandomTensor.of(bias, self.param, self.prior))
        self.train(module.training)

    @property
    def outputs(self) -> int:
        """How many output units there are."""
        return self.weight_shape[self.output_axis]

    def spread(self, values: Tensor) -> Tensor:
        """One value for each output unit, in a shape that broadcasts to the weights'."""
        shape = [1] * len(self.weight_shape)
        shape[self.output_axis] = -1
        return values.view(shape)

    def _register(self, owner: str, tensors: dict[str, Tensor]) -> tuple[str, ...]:
        """Own the tensors under their names, which are returned."""
        taken = {*dir(self), "bias", "of_param", "of_prior"}
        for name, tensor in tensors.items():
            if name in taken:
                raise ValueError(f"{owner} calls a tensor {name!r}, a name that the layer has in use: use another one")
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(name, tensor)
            else:
                self.register_buffer(name, tensor)
        return tuple(tensors)

    @classmethod
    def from_deterministic(
        cls,
        module: nn.Module,
        param: str | Parameterization = "layer",
        prior: str | Prior = "loguniform",
        **options: Any,
    ) -> "Variational":
        """A layer in place of a deterministic one, whose parameters it takes over."""
        layer = cls.__new__(cls)
        layer._adopt(module, param, prior, options)
        return layer

    # ---- what a kind of layer says of itself

    @classmethod
    def unfit(cls, module: Any) -> str | None:
        """Why a layer of torch of the kind that this one replaces cannot be replaced; None if it can."""
        return None

    def take_shape(self, module: Any) -> None:
        """Take over what the layer of torch knows beside its parameters."""
        raise NotImplementedError

    def check_input(self, *inputs: Any, **options: Any) -> None:
        """Refuse an input of a wrong shape."""
        raise NotImplementedError

    def prepare(self, *inputs: Any, **options: Any) -> tuple[Tensor, local.Geometry]:
        """The input as the product takes it, and which convolution the product is; None for a dense one."""
        raise NotImplementedError

    def in_product(self, weights: Tensor) -> Tensor:
        """A tensor of the shape of the weights as the product takes it."""
        return weights

    def restore(self, out: Tensor) -> Tensor:
        """The output of the product as the layer gives it."""
        return out

    def shape_repr(self) -> str:
        """The arguments that make a layer of this shape, for printing."""
        raise NotImplementedError

    # ---- what all of them do

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        self.check_input(*inputs, **options)
        if self.samples_locally:
            return self.sample(*inputs, **options)
        if self.state.sampling == "none" or self.param.deterministic:
            return self.product(*inputs, self.weight, **options)
        return self.product_of_draw(*inputs, self.weight, **options)

    @property
    def samples_locally(self) -> bool:
        return self.state.sampling == "local" and self.param.noise == "gaussian" and not self.param.deterministic

    def product(self, *inputs_and_weight: Any, **options: Any) -> Tensor:
        """The layer with the given weights, the last argument."""
        *inputs, weight = inputs_and_weight
        x, conv = self.prepare(*inputs, **options)
        return self.restore(local.product(x, self.in_product(weight), self.bias, conv))

    def product_of_draw(self, *inputs_and_weight: Any, **options: Any) -> Tensor:
        """As product, with weights that were drawn: held; or one draw per batch of Bernoulli and uniform noise, which
        have no local reparameterization."""
        *inputs, weight = inputs_and_weight
        x, conv = self.prepare(*inputs, **options)
        return self.restore(local.product_of_draw(x, self.in_product(weight), self.bias, conv))

    def sample(self, *inputs: Any, **options: Any) -> Tensor:
        """The layer with weights drawn anew for every object."""
        x, conv = self.prepare(*inputs, **options)
        mean, std, alpha = self._of_weights()
        bias, variance = self.bias_moments()
        if variance is None:
            return self.restore(local.reparameterize(x, mean, std, bias, alpha, conv))
        moments = local.output_mean(x, mean, bias, conv), local.output_variance(x, std, alpha, conv, variance)
        return self.restore(local.sample(*moments, local.low_precision(x)))

    def moments(self, *inputs: Any, **options: Any) -> tuple[Tensor | None, Tensor]:
        """Mean (None for 0) and variance of the output: what `sample` draws from."""
        x, conv = self.prepare(*inputs, **options)
        mean, std, alpha = self._of_weights()
        bias, of_bias = self.bias_moments()
        mean = local.output_mean(x, mean, bias, conv)
        variance = local.output_variance(x, std, alpha, conv, of_bias)
        return None if mean is None else self.restore(mean), self.restore(variance)

    def bias_moments(self) -> tuple[Tensor | None, Tensor | None]:
        """Mean (or draw) of the bias in this state, None for 0; its variance where the noise is drawn at the output."""
        part = self.part("bias")
        if part is None or not part.samples_locally:
            return self.bias, None
        kept = part.param.kept(part)
        std, alpha = part._std_and_alpha(kept)
        return part._mean(kept), std.square() if alpha is None else std.square() * alpha

    def frozen(self, conv: local.Geometry) -> tuple[Tensor | None, local.WeightVariance]:
        """Mean and variance of the weights as they are now, for many samples without a gradient."""
        mean, std, alpha = self._of_weights()
        return mean, local.weight_variance(std, alpha, conv)

    def _of_weights(self) -> tuple[Tensor | None, Tensor, Tensor | None]:
        """Mean (None for 0), std and alpha in the shape that the product takes."""
        kept = self.param.kept(self)
        mean, (std, alpha) = self._mean(kept), self._std_and_alpha(kept)
        return None if mean is None else self.in_product(mean), self.in_product(std), alpha

    # `kept` says which weights are below the threshold on log alpha, None for all: found once for a pass.

    def _mean(self, kept: Tensor | None = None) -> Tensor | None:
        """The mean of the weights in this state; None for 0."""
        return None if self.param.zero_mean or self.state.zero_mean else _masked(self.param.mean(self), kept)

    def _std(self, kept: Tensor | None = None) -> Tensor:
        """The standard deviation of the weights in this state, up to its sign."""
        std = _masked(self.param.std(self), None if self.keeps_noise else kept)
        return std if self.permutation is None else std.flatten()[self.permutation].view(std.shape)

    @property
    def keeps_noise(self) -> bool:
        """Whether weights past the threshold lose their mean alone (dense layers of Molchanov et al. 2017)."""
        dense = len(self.weight_shape) == 2
        return self.param.removed == "mean" or (self.param.removed == "mean_of_dense" and dense)

    def _std_and_alpha(self, kept: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(std, alpha) with variance = alpha * std^2."""
        altered = self.permutation is not None or kept is not None
        std, alpha = (self._std(kept), None) if altered else self.param.std_and_alpha(self)
        if self.alpha_in_std and alpha is not None and alpha.dim():
            std, alpha = self._std(kept), None
        if std.dtype == torch.float16:
            raise ValueError(
                f"{self} has float16 weights, which cannot hold variances: keep float32, use torch.autocast"
            )
        return std, alpha

    @property
    def weight(self) -> Tensor:
        """The weights as the state has them: their mean, the held draw, or a new draw."""
        kept = self.param.kept(self)
        mean = self._mean(kept)
        if self.state.sampling == "none" or self.param.deterministic:
            return torch.zeros_like(self._std(kept)) if mean is None else mean
        std = self._std(kept)
        noise = unit_noise(self.param.noise, std) if self.held_noise is None else self.held_noise
        return std * noise if mean is None else torch.addcmul(mean, std, noise)

    def posterior(self) -> Posterior:
        """Moments of q(w) as they are learned, whatever the state."""
        return Posterior(self.param.mean(self), self.param.variance(self), self.param.log_alpha_of(self))

    def kl(self) -> Tensor:
        """KL(q || p), summed over the weights."""
        return self.prior.kl(self.param, self, self.weight_shape)

    def set_state(self, state: State) -> None:
        order = None
        if state.permuted:
            order = torch.randperm(self.weight_shape.numel(), device=self.param.std(self).device)
        super().set_state(state)
        self.permutation = order

    def new_noise(self) -> Tensor:
        return unit_noise(self.param.noise, self.param.std(self).detach())

    @torch.no_grad()
    def removed(self) -> Tensor:
        """Which weights are 0, mean and variance: from the threshold on log alpha on, or pruned."""
        pruned = ((self.param.mean(self) == 0) & (self.param.std(self) == 0)).expand(self.weight_shape)
        kept = self.param.kept(self)
        return pruned if kept is None or self.keeps_noise else pruned | ~kept

    @torch.no_grad()
    def drop_mean(self) -> None:
        """Become the zero-mean layer of the same variances (Theorem 1). Weights that are 0 remain 0."""
        sigma = self.param.std(self).masked_fill(self.removed(), 0.0)
        self._forget(self.of_param)
        self.param = ZeroMean()
        self.of_param = self._register("param=zero_mean", {"sigma": nn.Parameter(sigma)})

    def share(self, other: "Variational") -> None:
        """Learn what another layer learns: one posterior, two uses."""
        self.shared = other.shared = True
        self._forget((*self.of_param, *self.of_prior))
        self.param, self.prior = other.param, other.prior
        self.of_param = self._register("param", {name: getattr(other, name) for name in other.of_param})
        self.of_prior = self._register("prior", {name: getattr(other, name) for name in other.of_prior})

    def _forget(self, names: tuple[str, ...]) -> None:
        for name in names:
            delattr(self, name)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        translate(self, state_dict, f"{prefix}weight", prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        bias = self.part("bias") is not None or self.bias is not None
        return f"{self.shape_repr()}, bias={bias}, param={self.param.name}, prior={self.prior.name}"


def layers_of(model: nn.Module) -> dict[str, Variational]:
    """The variational layers of a model by name; a shared layer once."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Variational)}


def _masked(values: Tensor, kept: Tensor | None) -> Tensor:
    return values if kept is None else values * kept


def factory(options: dict[str, Any]) -> dict[str, Any]:
    """Where and in which precision to make a layer: taken out of its options."""
    return {key: options.pop(key) for key in ("device", "dtype") if key in options}
