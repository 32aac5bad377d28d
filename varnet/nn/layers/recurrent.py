"""Recurrent layers: one draw of the weights for a whole sequence, and for all sequences of a batch.

The same weights multiply every step, so noise that is drawn for the output of a step, anew for the next one, would be
another distribution (it averages out over the steps): local reparameterization is not exact here, and is not used. In
the state `weights` the draw is held over batches, too, and over calls step by step.
"""

from typing import Any

from torch import Tensor, nn

from varnet.nn.layers.host import Host


class Recurrent(Host):
    """What recurrent layers share: they read all their tensors at once, as a list."""

    _flat_weights_names: list[str]

    @property
    def _flat_weights(self) -> list[Tensor | None]:
        """The tensors in the order of torch: parts as their state has them, each drawn once for a call."""
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @classmethod
    def weights_of(cls, module: Any) -> list[str]:
        return [name for name in module._flat_weights_names if "weight" in name]

    @classmethod
    def change(cls, module: Any, parts: dict[str, Any]) -> Any:
        vars(module).pop("_flat_weights", None)
        vars(module).pop("_flat_weight_refs", None)
        return super().change(module, parts)

    def _init_flat_weights(self) -> None:
        pass

    def _update_flat_weights(self) -> None:
        pass

    def flatten_parameters(self) -> None:
        """Nothing: the tensors are made anew for every call."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self).copy()

    __setstate__ = nn.Module.__setstate__
    _apply = nn.Module._apply

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse an input of a wrong shape, without a look at the weights, which would draw them."""
        wanted = 2 if batch_sizes is not None else 3
        if input.dim() != wanted or input.shape[-1] != self.input_size:
            raise ValueError(f"{self} takes inputs of {self.input_size} features, but got shape {tuple(input.shape)}")


class RNN(Recurrent, nn.RNN, replaces=nn.RNN):  # type: ignore[override]  # _flat_weights, an attribute in torch
    """nn.RNN with random weights."""


class LSTM(Recurrent, nn.LSTM, replaces=nn.LSTM):  # type: ignore[override]  # _flat_weights, an attribute in torch
    """nn.LSTM with random weights."""


class GRU(Recurrent, nn.GRU, replaces=nn.GRU):  # type: ignore[override]  # _flat_weights, an attribute in torch
    """nn.GRU with random weights."""
