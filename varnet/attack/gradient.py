"""Attacks by gradient on the images that a network sees (section 6.3), in pixels of 0..255.

The iterative fast sign method moves every pixel by a fixed step in the direction that makes a wrong, randomly chosen
class (the target) more probable, and stays among valid pixels. PGD is the same within a norm bound around the image.
The gradient of a stochastic network is that of its averaged prediction, eq. (2), with fresh noise in every iteration.
The prediction from which a step is made also judges the images before it: its noise is newer than they are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, fx, nn

from varnet.base.checks import COUNT, SWITCH, Check, number, one_of, or_null, whole
from varnet.errors import ConfigError
from varnet.evaluation.metrics import average_probs, check_numbers, log_likelihood
from varnet.evaluation.predictions import is_stochastic, isolated
from varnet.evaluation.prefix import Sampler
from varnet.evaluation.untouched import draws
from varnet.nn.modes import predicting

METHODS = ("fast_sign", "pgd_linf", "pgd_l2")
BRIGHTEST = 255.0
LONGEST = 1e6  # step and bound; far beyond any image, and its square is a float32


@dataclass(frozen=True)
class Attack:
    """Settings of an attack. The step and the bound are in pixels of 0..255."""

    method: str = "fast_sign"  # fast_sign: no bound; pgd_linf, pgd_l2: within epsilon of the image in that norm
    iterations: int = 40
    step: float = 0.5  # section 6.3; of every pixel, for pgd_l2 of the whole image
    epsilon: float | None = None
    targeted: bool = True  # towards a given class; else away from the right one
    samples: int = 10  # predictions that are averaged for a step; more than `judged`: expectation over the noise (EOT)
    judged: int | None = None  # of these, how many a verdict averages; None: all
    random_start: bool = False  # PGD: from a random image within the bound
    seed: int = 0

    def __post_init__(self) -> None:
        one_of(*METHODS)("method", self.method)
        for key, check in {
            "iterations": whole(0, 10**6), "samples": COUNT, "seed": whole(0), "targeted": SWITCH,
            "random_start": SWITCH, "step": number(0, LONGEST, above=True), "epsilon": or_null(number(0, LONGEST)),
            "judged": or_null(Check(whole(1, self.samples).fits, f"a whole number from 1 to samples={self.samples}")),
        }.items():  # fmt: skip
            check(key, getattr(self, key))
        bounded = self.method != "fast_sign"
        if self.epsilon is None and bounded:
            raise ConfigError(
                f"is invalid for method={self.method}: give the bound, in pixels of 0..255", "epsilon", None
            )
        if not bounded and (self.epsilon is not None or self.random_start):
            raise ConfigError(
                "has no bound: leave out epsilon and random_start, or use pgd_linf", "method", self.method
            )

    @property
    def bound(self) -> float:
        """epsilon as a number: infinite where there is none."""
        return math.inf if self.epsilon is None else self.epsilon


class Pixels(nn.Module):
    """A network for images of 0..255, normalised inside as varnet.data does it."""

    shift: Tensor  # of each channel
    scale: Tensor

    def __init__(self, model: nn.Module, mean: tuple[float, ...] | None = None, std: tuple[float, ...] | None = None):
        super().__init__()
        self.model = model
        given = ((0.0,) if mean is None else mean, (1.0,) if std is None else std)
        shift, scale = (torch.as_tensor(v, dtype=torch.float32).view(-1, 1, 1) * BRIGHTEST for v in given)
        if not bool((scale > 0).all()):
            raise ConfigError("is invalid: use numbers above 0", "std", std)
        self.register_buffer("shift", shift, persistent=False)
        self.register_buffer("scale", scale, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        dtype = next((p.dtype for p in self.model.parameters() if p.is_floating_point()), None)
        return self.model(normalised(x, self.shift, self.scale, dtype))


@fx.wrap  # its checks need the values: as one operation, torch.fx can trace the network around it
def normalised(x: Tensor, shift: Tensor, scale: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Compute (x - shift) / scale for each channel; a network of float64 takes float64."""
    channels = max(len(shift), len(scale))
    if x.dim() < 3:
        raise ValueError(f"images of shape {tuple(x.shape)} have no channels: give N x channels x height x width")
    if channels > 1 and x.shape[-3] != channels:  # 1 would broadcast
        raise ValueError(
            f"images of shape {tuple(x.shape)} meet a mean and std of {channels} channels: give those of the images"
        )
    return ((x - shift) / scale).to(dtype or x.dtype)


class Path(NamedTuple):
    """Path of N images over `iterations` steps; entry 0 is before the attack."""

    images: list[Tensor]  # after each iteration, or only the last ones
    log_probs: Tensor  # (iterations + 1, N, classes): the attacked network's averaged prediction

    def success(self, aim: Tensor, targeted: bool = True) -> Tensor:
        """Tell after each iteration which images fool the network (`succeeded`)."""
        return succeeded(self.log_probs, aim, targeted)


def succeeded(log_probs: Tensor, aim: Tensor, targeted: bool = True) -> Tensor:
    """Tell, (iterations + 1, N), where the target is predicted; untargeted: where the label is not."""
    hit = log_probs.argmax(-1) == aim
    return hit if targeted else ~hit


def run(model: nn.Module, x: Tensor, aim: Tensor, attack: Attack, keep: bool = False) -> Path:
    """Attack the images x. `aim` is the target class of each, or untargeted its label. keep: all images of the path.

    The model takes pixels of 0..255 (Pixels). Its parameters, their gradients, its modes and the random numbers of the
    caller stay as they are.
    """
    x = _checked(x, aim)
    project = _projection(x, attack)
    samples = attack.samples if is_random(model, x) else 1
    images: list[Tensor] = []
    found: list[Tensor] = []
    with torch.inference_mode(False), torch.enable_grad(), isolated(attack.seed), predicting(model, "sample"):
        aim = aim.clone()  # of a caller in inference mode it could not be kept for the gradient
        sampler = Sampler(model)
        now = project(_start(x, attack))
        for iteration in range(attack.iterations + 1):
            now.requires_grad_()
            logs = [out.float().log_softmax(1) for out in sampler(now, samples)]
            if not found and not 0 <= int(aim.min()) <= int(aim.max()) < logs[0].shape[1]:
                raise ValueError(
                    f"classes {int(aim.min())} to {int(aim.max())} were given to attack, but the network "
                    f"knows 0 to {logs[0].shape[1] - 1}: give classes that it knows"
                )
            found.append(average_probs([log.detach() for log in logs[: attack.judged]]))
            images = [*images, now.detach()] if keep else [now.detach()]
            if iteration < attack.iterations:
                now = project(now.detach() + _step(average_probs(logs), now, aim, attack))
    log_probs = torch.stack(found)
    check_numbers(log_probs)
    return Path(images, log_probs)


def is_random(model: nn.Module, x: Tensor) -> bool:
    """Tell whether samples of a network's predictions for images x differ: also by noise that a module of the caller's
    own draws."""
    if is_stochastic(model):
        return True
    with predicting(model, "sample"):
        return draws(model, x[:2].detach().float())


def _checked(x: Tensor, aim: Tensor) -> Tensor:
    for name, value in (("images", x), ("classes", aim)):
        if not isinstance(value, Tensor):
            raise ValueError(f"the {name} are a {type(value).__name__}: give a torch.Tensor")
    if aim.dim() != 1 or aim.dtype != torch.long:
        raise ValueError(f"the classes are {tuple(aim.shape)} of {aim.dtype}: give one torch.int64 for each image")
    if len(x) == 0 or len(x) != len(aim):
        raise ValueError(f"{len(x)} images come with {len(aim)} classes: give at least one image, and a class for each")
    x = x.detach().float()
    if not (float(x.min()) >= 0 and float(x.max()) <= BRIGHTEST):  # true for NaN
        raise ValueError("the images are not of 0..255: attack raw pixels, and let varnet.attack.Pixels normalise them")
    if float(x.max()) <= 1 and bool((x % 1 != 0).any()):
        raise ValueError(
            "the images are of 0..1: steps are in pixels of 0..255, so give x * 255 (varnet.attack.Pixels)"
        )
    return x


def _step(log_probs: Tensor, x: Tensor, aim: Tensor, attack: Attack) -> Tensor:
    """Step uphill in the log odds of the target; untargeted, downhill in those of the label.

    That is the direction of the log probability too, log odds = log p - log(1 - p), which in float32 has no gradient
    left where the network is certain.
    """
    others = log_probs.scatter(1, aim[:, None], -torch.inf).logsumexp(1)
    gain = (log_likelihood(log_probs, aim) - others).sum()
    (gradient,) = torch.autograd.grad(gain if attack.targeted else -gain, x)
    if attack.method == "pgd_l2":
        return attack.step * _direction(gradient)
    return attack.step * gradient.sign()


def _projection(x: Tensor, attack: Attack) -> Callable[[Tensor], Tensor]:
    """Return the projection to valid pixels within the bound around x. x is valid: clamping stays within the bound."""

    def within(now: Tensor) -> Tensor:
        if attack.method == "pgd_linf":
            now = torch.minimum(torch.maximum(now, x - attack.bound), x + attack.bound)
        elif attack.method == "pgd_l2":
            change = now - x
            length = _norm(change)
            now = torch.where(length > attack.bound, x + change * (attack.bound / length.clamp_min(1e-30)), now)
        return now.clamp(0, BRIGHTEST)

    return within


def _start(x: Tensor, attack: Attack) -> Tensor:
    if not attack.random_start:
        return x.clone()
    if attack.method == "pgd_linf":
        return x + attack.bound * (2 * torch.rand_like(x) - 1)
    direction = torch.randn_like(x)
    radius = torch.rand(len(x), *[1] * (x.dim() - 1), device=x.device) ** (1 / x[0].numel())  # uniform in the ball
    return x + attack.bound * radius * direction / _norm(direction)


def _direction(x: Tensor) -> Tensor:
    """Scale each image to length 1, 0 where x is 0. Squares of small numbers must not vanish."""
    largest = x.abs().amax(tuple(range(1, x.dim())), keepdim=True)
    x = torch.where(largest > 0, x / largest, 0.0)
    return x / _norm(x).clamp_min(1.0)


def _norm(x: Tensor) -> Tensor:
    """Length of each image, in a shape that broadcasts to the images."""
    return x.flatten(1).norm(dim=1).view(-1, *[1] * (x.dim() - 1))


def random_targets(y: Tensor, classes: int, seed: int = 0) -> Tensor:
    """Draw a class other than the label for each image, all with the same chance."""
    if classes < 2:
        raise ConfigError("is invalid: a target needs a second class", "classes", classes)
    steps = torch.randint(1, classes, y.shape, generator=torch.Generator().manual_seed(seed))
    return (y + steps.to(y.device)) % classes
