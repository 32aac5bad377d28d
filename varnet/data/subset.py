"""Class-balanced choices and random labels, fixed by a seed; random choices where targets are numbers."""

import torch
from torch import Tensor


def chosen(targets: Tensor, size: int, seed: int) -> Tensor:
    """Ascending indices of `size` objects, of all classes alike where the targets are classes."""
    if targets.ndim == 1 and not targets.is_floating_point():
        return balanced(targets, size, seed)
    return torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))[:size].sort().values


def balanced(labels: Tensor, size: int, seed: int) -> Tensor:
    """Ascending indices of `size` images whose class counts differ by at most one, or as little as the data allow.

    For equal seeds a smaller choice is part of a larger one.
    """
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[labels[shuffled].argsort(stable=True)]  # class 0 in random order, then class 1, ...
    counts = torch.bincount(labels)
    first = (counts.cumsum(0) - counts)[labels[by_class]]
    rank = torch.arange(len(labels)) - first  # 0 for the first image of each class, 1 for the second, ...
    return by_class[rank.argsort(stable=True)[:size]].sort().values


def others(size: int, chosen: Tensor) -> Tensor:
    """Ascending indices below `size` that were not chosen."""
    return torch.ones(size, dtype=torch.bool).index_fill(0, chosen, False).nonzero().squeeze(1)


def permuted(labels: Tensor, seed: int) -> Tensor:
    """The same labels on other images: class counts stay, the relation to the image goes (Zhang et al. 2017)."""
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]


def take(x: Tensor, indices: Tensor) -> Tensor:
    """Some of the images or points; images stay channels-last in memory, which plain indexing would undo."""
    if x.ndim != 4:
        return x.index_select(0, indices)
    return x.permute(0, 2, 3, 1).index_select(0, indices).permute(0, 3, 1, 2)
