"""Compact networks against the dense ones they come from: size on disk and speed of prediction, one thread.

LeNet-300-100 and LeNet-5 are pruned at random to the sparsities that sparse variational dropout published for MNIST
(those published for MNIST). Trained networks lose whole units and filters, random ones few: the harder case. The
dense network has its batch norm as trained; it is measured in both memory layouts, and the faster one counts.
"""

import copy
import math

import torch
from torch import nn

from varnet.bench.timing import interleaved
from varnet.compress.compacting import compact, deterministic
from varnet.nn.layers import layers_of
from varnet.nn.networks import build

BATCHES = (1, 200)
PUBLISHED = {"lenet300": (0.989, 0.972, 0.62), "lenet5": (0.67, 0.98, 0.998, 0.95)}  # share of zeros by layer


def run(args) -> list[dict]:
    rows = []
    for name, sparsity in PUBLISHED.items():
        model = pruned(name, sparsity)
        original, small = deterministic(model), compact(model)
        report = small.report
        rows.append(
            {
                "network": name,
                "|W| / |W != 0|": report.compression,
                "bytes, dense": report.original_bytes,
                "bytes, compact": report.compact_bytes,
                "times smaller": report.original_bytes / report.compact_bytes,
            }
            | speed(original, small, (1, 28, 28), args.repeats or 200)
        )
    return rows


def pruned(name: str, sparsity: tuple[float, ...], seed: int = 0) -> nn.Sequential:
    """A network whose weights have log alpha 10 (to be removed) or -10, drawn at random."""
    torch.manual_seed(seed)
    model = build(name, (1, 28, 28), 10, layers="all", param="weight")
    for layer, share in zip(layers_of(model).values(), sparsity, strict=True):
        layer.log_alpha.data = torch.where(torch.rand_like(layer.mu) < share, 10.0, -10.0)
    return model


def speed(original: nn.Sequential, small: nn.Sequential, in_shape: tuple[int, ...], repeats: int) -> dict[str, float]:
    """By batch: milliseconds of the compact network, and how many times the dense one's that is faster."""
    row = {}
    nhwc = copy.deepcopy(original).to(memory_format=torch.channels_last)
    for batch in BATCHES:
        x = torch.rand(batch, *in_shape)
        cases = {"compact": lambda x=x: small(x), "dense": lambda x=x: original(x)}
        if len(in_shape) == 3:
            last = x.contiguous(memory_format=torch.channels_last)
            cases["channels-last"] = lambda x=last: nhwc(x)
        with torch.inference_mode():
            seconds = interleaved(cases, max(5, repeats // math.isqrt(batch)))
        ours = seconds.pop("compact")
        row |= {f"ms, batch {batch}": 1000 * ours, f"times faster, batch {batch}": min(seconds.values()) / ours}
    return row
