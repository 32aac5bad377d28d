"""Attention: `in_proj_weight`, or the three that stand for it, is drawn once for a call, `out_proj` as well.

Every position is multiplied by the same weights, and torch reads them instead of calling layers; so the joint over the
positions is exact here, at the price of noise that the objects of a batch share.
"""

from typing import Any

from torch import Tensor, nn

from varnet.nn.layers.host import Host


class MultiheadAttention(Host, nn.MultiheadAttention, replaces=nn.MultiheadAttention):
    """nn.MultiheadAttention with random weights. `out_proj` is a Linear of its own."""

    @classmethod
    def weights_of(cls, module: Any) -> list[str]:
        return ["in_proj_weight"] if module._qkv_same_embed_dim else [f"{one}_proj_weight" for one in "qkv"]

    @classmethod
    def biases_of(cls, module: nn.Module) -> list[str]:
        return ["in_proj_bias"] if module._parameters.get("in_proj_bias") is not None else []

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        with self.drawn():
            return super().forward(*args, **kwargs)
