"""K predictions for little more than one: what does not depend on the noise is computed once (section 6.1's protocol).

A model in its present state (`predicting`) is traced by torch.fx and cut in two. The prefix holds everything that no
noise reaches, the moments of the variational layers that it feeds included; it runs once per batch. The suffix draws
from these moments and runs once per sample. Which operations are random is found by running them (probing.py). The cut
is checked against the model itself on two rows, its gradient too where gradients are on (agreement.py). A model that
cannot be traced, that changes itself, or for which the check fails, is run whole for every sample; `Sampler.why` says
so. Noise that a model draws from a generator of its own, or outside torch, is not seen.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from varnet.evaluation.agreement import check_agreement
from varnet.evaluation.folding import Unfoldable, batched
from varnet.evaluation.halves import halves
from varnet.evaluation.probing import Probe, RunWhole, named, traced
from varnet.evaluation.sources import forgotten
from varnet.evaluation.untouched import untouched

ROWS = 2  # on which a cut is found and checked


class Cut(NamedTuple):
    """Model in two parts."""

    prefix: nn.Module  # x -> values
    suffix: nn.Module | None  # values -> output; None if nothing is random, and the value is the output
    batched: tuple[bool, ...] | None = None  # which values have the rows of the batch; None: samples are not folded
    unfolded: str | None = None  # why they are not, where it was asked for


class Sampler:
    """Source of outputs of a model that stays in one state. They are bit for bit those of calls of the model one after
    the other, unless `fold` puts several samples into one batch: the same in distribution, fewer calls.

    cut   the model in two parts; None before the first batch, and if the model is run whole
    why   a sentence if it is run whole
    """

    def __init__(self, model: nn.Module, fold: int | None = None):
        """fold: rows of a batch into which several samples may be put; None: one sample after the other."""
        self.model: nn.Module = getattr(model, "_orig_mod", model)  # of torch.compile
        self.fold = fold
        self.cut: Cut | None = None
        self.why: str | None = None
        self._known: dict[bool, tuple[Cut | None, str | None]] = {}  # with gradients, and without

    def __call__(self, x: Tensor, samples: int) -> Iterator[Tensor]:
        """Draw `samples` outputs of the model for the batch x."""
        self.prepare(x)
        if self.cut is None:
            return (self.model(x) for _ in range(samples))
        return self._from_prefix(self.cut, self.cut.prefix(x), samples, len(x))

    def prepare(self, x: Tensor) -> None:
        """Find the cut, as the first call does, with gradients if they are on."""
        gradients = torch.is_grad_enabled()
        if gradients not in self._known and len(x):
            self._known[gradients] = cut(self.model, x, self.fold)
        self.cut, self.why = self._known.get(gradients, (None, "the batch is empty"))

    @property
    def stochastic(self) -> bool:
        """Tell whether samples differ, as is known after the first batch."""
        return self.cut is None or self.cut.suffix is not None

    def _from_prefix(self, cut: Cut, values: tuple[Any, ...], samples: int, rows: int) -> Iterator[Tensor]:
        if cut.suffix is None:
            yield from [values[0]] * samples
            return
        at_once = max(1, self.fold // rows) if self.fold and cut.batched else 1
        for start in range(0, samples, at_once):
            n = min(at_once, samples - start)
            if n == 1:
                yield cut.suffix(*values)
            else:
                yield from cut.suffix(*_repeated(values, cut.batched, n)).unflatten(0, (n, rows))


def _repeated(values: tuple[Any, ...], chosen: tuple[bool, ...], times: int) -> list[Any]:
    pairs = zip(values, chosen, strict=True)
    return [value.repeat(times, *[1] * (value.dim() - 1)) if one else value for value, one in pairs]


def cut(model: nn.Module, x: Tensor, fold: int | None = None) -> tuple[Cut | None, str | None]:
    """Cut a model in two; or return None, and why it has to be run whole. Model and generators stay as they are."""
    gradients = torch.is_grad_enabled()
    # In inference mode tensors do not count their changes, and leaving it turns gradients on.
    with torch.inference_mode(False), torch.set_grad_enabled(gradients):
        few = x[:ROWS].detach().clone()
        try:
            with forgotten(), untouched(model, x) as state:
                found = _checked(model, few, fold)
                if name := state.changed():
                    raise RunWhole(f"it changes {name!r} whenever it is called")
            return found, None
        except RunWhole as reason:
            return None, str(reason)
        except Exception as error:  # of a model that does not take so few rows
            return None, f"it fails on {len(few)} rows ({named(error)})"


def _checked(model: nn.Module, x: Tensor, fold: int | None) -> Cut:
    module = traced(model, x)
    prefix, suffix = halves(module, Probe(module, x))
    check_agreement(prefix, suffix, model, x)
    if fold is None or suffix is None:
        return Cut(prefix, suffix)
    try:
        return Cut(prefix, suffix, batched(module, prefix, suffix, x))
    except Unfoldable as reason:
        return Cut(prefix, suffix, unfolded=str(reason))
