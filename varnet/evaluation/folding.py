"""Folding: several samples in one batch, where every row has noise of its own and knows nothing of the others.

Neither can be read off a graph, so both are tried out: on batches of two and of three rows, and with rows that are
stained.
"""

from typing import Any

import torch
from torch import Tensor, fx, nn

from varnet.evaluation.probing import Probe, named, samples_locally
from varnet.evaluation.untouched import Generators

SIZES = (2, 3)  # rows of the trials


class Unfoldable(Exception):
    """Samples of a model have to be drawn one after the other; the message says why."""


def batched(module: fx.GraphModule, prefix: nn.Module, suffix: nn.Module, x: Tensor) -> tuple[bool, ...]:
    """Tell which of the values that the prefix hands over have a row for each object of a batch; the others have none.

    x: a batch of any size; its first rows are used, again and again if they are too few
    """
    few = [x[torch.arange(rows, device=x.device) % len(x)] for rows in SIZES]
    try:
        _check_noise(*(Probe(module, rows) for rows in few))
        values = [prefix(rows) for rows in few]
        chosen = tuple(_is_batched(a, b) for a, b in zip(*values, strict=True))
        _check_rows(suffix, values[1], chosen)
    except Unfoldable:
        raise
    except Exception as error:  # of a model that does not take this number of rows
        raise Unfoldable(f"it fails on {SIZES[0]} or {SIZES[1]} rows ({named(error)})") from error
    return chosen


def _check_noise(two: Probe, three: Probe) -> None:
    """Refuse noise that rows share. Layers and dropout draw it value by value: it needs only the rows of the batch."""
    for node, module in three.random.items():
        known = samples_locally(module) or isinstance(module, nn.modules.dropout._DropoutNd)
        if not known or not _grows(two.shapes.get(node), three.shapes[node]):
            raise Unfoldable(f"{node.name} draws noise that the rows of a batch may share")


def _grows(two: torch.Size | None, three: torch.Size | None) -> bool:
    """Tell whether the first dimension is the number of rows, and no other is."""
    return bool(two and three) and (two[0], three[0]) == SIZES and two[1:] == three[1:]


def _is_batched(two: object, three: object) -> bool:
    if isinstance(two, Tensor) and isinstance(three, Tensor):
        if _grows(two.shape, three.shape) and two.is_floating_point():
            return True
        if two.shape == three.shape:
            return False
    elif isinstance(two, bool | int | float | str | None) and two == three:
        return False
    raise Unfoldable("a value that the samples share depends on the number of rows, and is no batch of numbers")


def _check_rows(suffix: nn.Module, values: tuple[Any, ...], chosen: tuple[bool, ...]) -> None:
    """Refuse rows that know of each other: what is in one, however large or NaN, must not be seen in another."""
    if not any(chosen):
        raise Unfoldable("the samples share nothing that has the rows of the batch")
    generators = Generators(values[chosen.index(True)])
    clean = suffix(*values)
    if clean.shape[:1] != (SIZES[1],):
        raise Unfoldable("its output does not have the rows of the batch")
    for row in range(SIZES[1]):
        others = [i for i in range(SIZES[1]) if i != row]
        for stain in (torch.nan, 10.0, -10.0):
            generators.restore()
            out = suffix(*(_stained(v, row, stain) if one else v for v, one in zip(values, chosen, strict=True)))
            if not torch.allclose(out[others], clean[others], rtol=1e-4, atol=1e-5, equal_nan=True):
                raise Unfoldable("the rows of a batch are mixed")


def _stained(value: Tensor, row: int, stain: float) -> Tensor:
    """Copy a batch with one row far outside of what it has."""
    value = value.clone()
    value[row] = stain * (1 + value.nan_to_num(0, 0, 0).abs().max())
    return value
