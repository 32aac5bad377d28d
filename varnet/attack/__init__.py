"""Attacks by gradient on the images that a network sees, and how many of them succeed.

    gradient     an attack: its settings, its steps, the path of the images
    robustness   several networks side by side, on the images that all have right
    rates        rates of success by iteration, with intervals, and the picture of them
    memory       how many images are attacked at once

>>> import torch
>>> from varnet.attack import Attack, Pixels, run
>>> network = Pixels(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)))
>>> path = run(network, torch.full((1, 1, 2, 2), 100.0), torch.tensor([1]), Attack(iterations=3, samples=1))
>>> float((path.images[-1] - 100).abs().max())  # three steps of half a pixel
1.5
"""

from varnet.attack.gradient import Attack, Path, Pixels, random_targets, run, succeeded
from varnet.attack.rates import wilson
from varnet.attack.robustness import experiment, transfer, white_box

__all__ = [
    "Attack", "Path", "Pixels", "experiment", "random_targets", "run", "succeeded", "transfer", "white_box", "wilson",
]  # fmt: skip
