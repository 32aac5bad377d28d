"""A step of an attack: what no noise reaches computed once (ours), against the whole network for every sample; the same
images, steps and noise. An ensemble's sample is one of each member."""

import functools

import torch
from torch import Tensor, nn

from varnet.attack.gradient import Attack, Pixels
from varnet.attack.gradient import run as attacked
from varnet.bench.timing import interleaved
from varnet.evaluation.ensemble import Ensemble
from varnet.nn.networks import build

STEPS = 2
VGG = {"width": 0.25, "dropout": False}
CASES = {  # name -> (network, input, variational layers, options, members, images)
    "LeNet-5, dense1": ("lenet5", (1, 28, 28), ["dense1"], {}, 1, 100),
    "five LeNet-5, dense1": ("lenet5", (1, 28, 28), ["dense1"], {}, 5, 20),
    "VGG-like 0.25, conv11-13, dense1": (
        "vgg", (3, 32, 32), ["conv11", "conv12", "conv13", "dense1"], VGG, 1, 20,
    ),
}  # fmt: skip


class Whole(nn.Module):
    """A network that varnet.evaluation.prefix cannot cut: its path depends on the images."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x) if bool(x.isfinite().all()) else x.new_zeros(len(x), 10)


def under_attack(network: str, in_shape: tuple[int, ...], layers: list[str], options: dict, members: int) -> Ensemble:
    nets = [build(network, in_shape, 10, layers=layers, **options) for _ in range(members)]
    return Ensemble([Pixels(net, (0.5,), (0.25,)) for net in nets]).to(memory_format=torch.channels_last)


def run(args) -> list[dict]:
    rows = []
    for name, (*about, images) in CASES.items():
        model = under_attack(*about)
        x, aim = 255 * torch.rand(images, *about[1]), torch.randint(10, (images,))
        for samples in (10, 50):
            given = (x, aim, Attack(iterations=STEPS, samples=samples))
            cases = {
                "whole": functools.partial(attacked, Whole(model), *given),
                "ours": functools.partial(attacked, model, *given),
            }
            seconds = interleaved(cases, args.repeats or 3, warmup=1)
            rows.append(
                {
                    "network": name, "images": images, "samples": samples, "whole, ms": 1000 * seconds["whole"],
                    "ours, ms": 1000 * seconds["ours"], "ratio": seconds["ours"] / seconds["whole"],
                }
            )  # fmt: skip
    return rows
