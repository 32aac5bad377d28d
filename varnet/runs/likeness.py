"""Whether a stored network is still itself, told by the labels that it gives to images which need no download.

A card holds the labels that the network gave to the first test images of scikit-learn's digits, in the size that it
takes. They need not be right: a network for CIFAR-10 has to repeat what it saw there. Noise differs from machine to
machine, so the card also says in which part of the labels two draws of the noise agreed.
"""

import math
from typing import Any

from torch import Tensor, nn

from varnet.data import Loader, load
from varnet.evaluation.predictions import is_stochastic, predict

IMAGES, SAMPLES = 200, 20
DEVIATIONS = 5  # standard errors that an agreement may be lower


def told(model: nn.Module, card: dict[str, Any]) -> dict[str, Any] | None:
    """What a card says about it; None where the digits are of no size that the network takes."""
    if not fits(card):
        return None
    first, second = labels(model, card, seed=0), labels(model, card, seed=1)
    return {"images": IMAGES, "labels": first, "agreement": _part(first, second)}


def fits(card: dict[str, Any]) -> bool:
    return tuple(card["in_shape"]) in ((1, 28, 28), (3, 32, 32))


def labels(model: nn.Module, card: dict[str, Any], seed: int, images: int = IMAGES) -> list[int]:
    """Of the first images, by the average of several samples if the network is stochastic."""
    channels, size, _ = card["in_shape"]
    data = load("digits", size=size, channels=channels)
    x, y = data.test_x[:images], data.test_y[:images]
    batches = Loader(x, y, len(y), mean=card.get("mean"), std=card.get("std"))
    mode, samples = ("sample", SAMPLES) if is_stochastic(model) else ("deterministic", 1)
    chosen: Tensor = predict(model, batches, mode, samples, seed=seed).log_probs.argmax(1)
    return chosen.tolist()


def agrees(model: nn.Module, card: dict[str, Any], images: int = IMAGES) -> bool:
    """Whether the network gives the labels of its card, as far as noise lets it."""
    about = card["likeness"]
    wanted, usual = about["labels"][:images], about["agreement"]
    spread = math.sqrt(max(usual * (1 - usual), 1 / len(wanted)) / len(wanted))
    return _part(labels(model, card, 0, images), wanted) >= usual - DEVIATIONS * spread


def _part(ours: list[int], theirs: list[int]) -> float:
    return sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(theirs)
