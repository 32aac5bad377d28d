"""Random programs of layers, noise, changes in place and gradients of their own: samples as in the plain loop."""

import random
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn

from tests.evaluation.straight_through import Round
from varnet import predicting
from varnet.evaluation.prefix import Sampler
from varnet.nn.layers import Linear

PROGRAMS, SAMPLES, WIDTH = 60, 3, 6


def without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x.sin()


def first_columns_smaller(x: Tensor) -> Tensor:
    x[:, :2].mul_(0.9)
    return x


OPERATIONS: dict[str, Callable[["Program", Tensor, Tensor], Tensor]] = {  # of the program and of two earlier values
    "linear": lambda own, a, b: own.linear(a),
    "another linear": lambda own, a, b: own.another(a),
    "noisy": lambda own, a, b: own.noisy(a),
    "dropout": lambda own, a, b: own.drop(a),
    "relu in place": lambda own, a, b: own.relu(a),
    "batch norm": lambda own, a, b: own.norm(a),
    "tanh": lambda own, a, b: a.tanh(),
    "sum": lambda own, a, b: a + b,
    "sum in place": lambda own, a, b: a.add_(b.tanh()),
    "clamp in place": lambda own, a, b: a.clamp_(-20, 20),  # changes nothing on the first rows
    "mask in place": lambda own, a, b: a.masked_fill_(b.detach() > 30, 0),
    "slice in place": lambda own, a, b: first_columns_smaller(a),
    "copy": lambda own, a, b: a.clone().copy_(b),
    "view": lambda own, a, b: a.view(-1, 2, 3).transpose(1, 2).reshape(-1, WIDTH),
    "straight through": lambda own, a, b: Round.apply(a),
    "no gradient": lambda own, a, b: a + without_gradient(a),
}


class Program(nn.Module):
    """A few operations, each on values that came before it."""

    def __init__(self, seed: int):
        super().__init__()
        chance = random.Random(seed)
        kind = chance.choice(["layer", "neuron", "additive", "zero_mean"])
        self.linear, self.another = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.noisy, self.norm = Linear(WIDTH, WIDTH, param=kind, log_alpha=-1.0), nn.BatchNorm1d(WIDTH)
        self.drop, self.relu = nn.Dropout(0.4), nn.ReLU(inplace=True)
        names = chance.choices(list(OPERATIONS), k=chance.randint(3, 9))
        self.steps = [(name, chance.randrange(n), chance.randrange(n)) for n, name in enumerate(names, 1)]

    def forward(self, x: Tensor) -> Tensor:
        values = [x * 1]
        for name, a, b in self.steps:
            values.append(OPERATIONS[name](self, values[a], values[b]))
        return values[-1]


def outcome(draw: Callable[[Tensor], Iterable[Tensor]], x: Tensor) -> list[Tensor] | str:
    """The samples and, where gradients are on, the gradient of their sum; or the kind of error."""
    given = x.clone().requires_grad_(torch.is_grad_enabled())
    torch.manual_seed(1)
    try:
        found = list(draw(given))
        total = sum(out.cos().sum() for out in found)
        if not total.requires_grad:
            return found
        (gradient,) = torch.autograd.grad(total, given, allow_unused=True)
    except RuntimeError as error:  # of autograd, about a value that was changed in place
        return type(error).__name__
    return [*found, torch.zeros_like(x) if gradient is None else gradient]


@pytest.mark.parametrize("gradients", [False, True])
def test_samples_and_gradients_are_those_of_the_plain_loop(gradients):
    shared = 0
    for seed in range(PROGRAMS):
        torch.manual_seed(seed)
        model, x = Program(seed), torch.cat([torch.randn(2, WIDTH), 40 * torch.randn(3, WIDTH)])
        with torch.set_grad_enabled(gradients), predicting(model, "sample"):
            sampler = Sampler(model)
            fast = outcome(lambda x, sampler=sampler: sampler(x, SAMPLES), x)
            slow = outcome(lambda x, model=model: (model(x) for _ in range(SAMPLES)), x)
        about = f"{seed}: {model.steps}, why: {sampler.why}"
        if isinstance(fast, str) or isinstance(slow, str):
            assert fast == slow, about
        else:
            torch.testing.assert_close(fast, slow, rtol=1e-3, atol=1e-4, msg=about)
        shared += sampler.cut is not None
    assert PROGRAMS / 4 < shared < PROGRAMS, "some can be cut, some cannot"
