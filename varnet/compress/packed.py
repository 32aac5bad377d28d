"""A compact network: only what is left after pruning, its true size on disk, and its file.

The file is one torch archive of a description and one string of bytes. Of each layer it holds the nonzero weights and
the gaps between them, in the smallest integers that fit (or all weights, where that is smaller), compressed by zlib.
How a layer is stored has nothing to do with how it computes: dense or CSR is chosen by speed (varnet.csr).
"""

import json
import math
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from varnet.base import archive
from varnet.base.files import write_atomically
from varnet.compress.csr import SparseConv2d, SparseLinear, conv_options, plain_conv, plain_linear, worthwhile
from varnet.errors import one_line

DESCRIBED = {  # layers without weights, and the options that make them
    nn.ReLU: (), nn.Tanh: (), nn.Sigmoid: (), nn.SiLU: (), nn.Identity: (),
    nn.LeakyReLU: ("negative_slope",), nn.ELU: ("alpha",), nn.GELU: ("approximate",),
    nn.Softplus: ("beta", "threshold"), nn.Softmax: ("dim",), nn.LogSoftmax: ("dim",),
    nn.MaxPool2d: ("kernel_size", "stride", "padding", "dilation", "ceil_mode"),
    nn.AvgPool2d: ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    nn.AdaptiveAvgPool2d: ("output_size",), nn.Flatten: ("start_dim", "end_dim"),
}  # fmt: skip
KINDS = {cls.__name__: cls for cls in DESCRIBED}
GAPS = (np.uint8, np.int16, np.int32)
FORMAT, MAX_HEAD = "varnet compact 1", 2**24
SPARE, RATIO, MOST = 2**26, 1000, 2**30  # bytes of the dense layers: SPARE and RATIO a byte of the file, up to MOST


@dataclass(frozen=True)
class Row:
    """One layer, before and after."""

    layer: str
    weights: int  # of the original
    nonzero: int  # after thresholding: what the papers count
    shape: tuple[int, ...]  # after removal of units
    kept: int  # nonzero weights of that shape
    format: str  # how it computes: dense or CSR
    bytes: int  # in the file, bias included


@dataclass(frozen=True)
class Report:
    rows: tuple[Row, ...]
    original_bytes: int  # of the deterministic network, saved by torch
    compact_bytes: int  # of the file

    @property
    def compression(self) -> float:
        """|W| / |W != 0|"""
        return sum(r.weights for r in self.rows) / max(1, sum(r.nonzero for r in self.rows))

    def __str__(self) -> str:
        before, after = f"{'layer':<10}{'weights':>12}{'nonzero':>10}{'%':>7}", f"{'shape left':>18}{'nonzero':>10}"
        lines = [f"{before}{after}  {'computes':<9}{'bytes':>9}"]
        for r in self.rows:
            shape, share = "x".join(map(str, r.shape)), 100 * r.nonzero / r.weights
            lines.append(
                f"{r.layer:<10}{r.weights:>12,}{r.nonzero:>10,}{share:>7.2f}{shape:>18}{r.kept:>10,}  {r.format:<9}"
                f"{r.bytes:>9,}"
            )
        ratio = self.original_bytes / self.compact_bytes
        lines.append(f"compression |W| / |W != 0| = {self.compression:.1f}")
        lines.append(f"on disk {self.original_bytes:,} -> {self.compact_bytes:,} bytes: {ratio:.1f} times smaller")
        return "\n".join(lines)


class Compact(nn.Sequential):
    """The network, for inference. `report` says what became of every layer."""

    report: Report
    channels_last = False  # the faster layout for convolutions

    def forward(self, x: Tensor) -> Tensor:
        if self.channels_last and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return super().forward(x)

    def dense(self) -> nn.Sequential:
        """The same network with plain layers only."""
        net = nn.Sequential()
        for name, module in self.named_children():
            net.add_module(name, as_dense(module))
        return net.eval()


def as_dense(module: nn.Module) -> nn.Module:
    return module.to_dense() if isinstance(module, SparseLinear | SparseConv2d) else module


def assembled(stages: dict[str, nn.Module], sparse: bool) -> Compact:
    """Plain layers -> the network, each layer in the faster form."""
    net = Compact()
    for name, module in stages.items():
        if sparse and isinstance(module, nn.Linear | nn.Conv2d) and worthwhile(module):
            module = SparseConv2d(module) if isinstance(module, nn.Conv2d) else SparseLinear(module)
        net.add_module(name, module)
    if any(isinstance(m, nn.Conv2d | SparseConv2d) for m in net):
        net.to(memory_format=torch.channels_last).channels_last = True
    return net.eval().requires_grad_(False)


def pack(module: nn.Module) -> tuple[dict, bytes]:
    """Description and bytes of a layer."""
    module = as_dense(module)
    if type(module) in DESCRIBED:
        options = {key: getattr(module, key) for key in DESCRIBED[type(module)]}
        return {"kind": type(module).__name__, "options": options}, b""
    assert isinstance(module, nn.Linear | nn.Conv2d)  # compact() makes no other layer
    weight = module.weight.detach().cpu().float().contiguous().numpy().ravel()
    bias = b"" if module.bias is None else _planes(module.bias.detach().cpu().float().numpy())
    position = weight.nonzero()[0]
    gaps = np.diff(position, prepend=0)
    kind = next(k for k in GAPS if not len(gaps) or gaps.max() <= np.iinfo(k).max)
    dense, sparse = _planes(weight), _planes(gaps.astype(kind)) + _planes(weight[position])
    stored = {"nonzero": len(position), "gap": kind.__name__} if len(sparse) < len(dense) else {}
    data = zlib.compress((sparse if stored else dense) + bias, 9)
    about = {"kind": type(module).__name__, "shape": tuple(module.weight.shape), "bias": bool(bias), "bytes": len(data)}
    options = {"options": conv_options(module)} if isinstance(module, nn.Conv2d) else {}
    return about | stored | options, data


def unpack(about: dict, data: bytes) -> nn.Module:
    if about["kind"] in KINDS:
        return KINDS[about["kind"]](**about["options"])
    shape, count = about["shape"], math.prod(about["shape"])
    stored = about.get("nonzero")
    parts = [] if stored is None else [(about["gap"], stored)]
    parts += [("float32", count if stored is None else stored), ("float32", shape[0] if about["bias"] else 0)]
    *gaps, numbers, offsets = _arrays(data, parts)
    if stored is not None:
        nonzero, numbers = numbers, np.zeros(count, np.float32)
        numbers[gaps[0].astype(np.int64).cumsum()] = nonzero
    weight, bias = torch.from_numpy(numbers).view(shape), torch.from_numpy(offsets) if about["bias"] else None
    return plain_conv(weight, bias, about["options"]) if about["kind"] == "Conv2d" else plain_linear(weight, bias)


def _planes(numbers: np.ndarray) -> bytes:
    """All first bytes, then all second ones, ...: signs and exponents lie together, which zlib likes."""
    return numbers.view(np.uint8).reshape(len(numbers), numbers.itemsize).T.tobytes()


def _arrays(data: bytes, parts: list[tuple[str, int]]) -> list[np.ndarray]:
    """The numbers that `_planes` wrote, one array for each (type, count)."""
    sizes = [np.dtype(kind).itemsize * count for kind, count in parts]
    opened, arrays, start = zlib.decompressobj(), [], 0
    raw = np.frombuffer(opened.decompress(data, sum(sizes) + 1), np.uint8)
    if len(raw) != sum(sizes) or not opened.eof:
        raise ValueError("its weights do not fit its description")
    for (kind, count), size in zip(parts, sizes, strict=True):
        planes = raw[start : start + size].reshape(np.dtype(kind).itemsize, count)
        arrays.append(planes.T.copy().view(kind).reshape(count))
        start += size
    return arrays


def packed(net: Compact, rows: tuple[Row, ...], original_bytes: int) -> bytes:
    """The content of the file."""
    layers, data = [], b""
    for name, module in net.named_children():
        about, part = pack(module)
        layers.append({"name": name} | about)
        data += part
    about = {"layers": layers, "rows": [asdict(r) for r in rows], "original_bytes": original_bytes}
    head = zlib.compress(json.dumps(about, separators=(",", ":")).encode(), 9)
    content = torch.frombuffer(bytearray(head + data), dtype=torch.uint8)
    return torch_bytes({"format": FORMAT, "head": len(head), "data": content})


def torch_bytes(state: object) -> bytes:
    return archive.dumped(state)


def save(net: Compact, path: str | Path) -> None:
    write_atomically(Path(path), packed(net, net.report.rows, net.report.original_bytes))


def load(path: str | Path, sparse: bool = True, most: int = MOST) -> Compact:
    """The network of a file. Nothing is unpickled, and nothing made before its size is known.

    sparse   False: compute with dense layers only
    most     bytes of memory that the layers may take, as dense ones
    """
    path = Path(path)
    try:
        state = archive.loaded(path)
        if state["format"] != FORMAT:
            raise ValueError(f"its format is {state['format']!r}, not {FORMAT!r}")
        stages, start, data = {}, state["head"], state["data"].numpy().tobytes()
        head = _tuples(json.loads(zlib.decompressobj().decompress(data[:start], MAX_HEAD)))
        needed, size = sum(map(_dense_bytes, head["layers"])), path.stat().st_size
        if needed > (allowed := min(most, SPARE + RATIO * size)):
            raise ValueError(f"it describes layers of {needed:,} bytes, more than the {allowed:,} of such a file")
        for about in head["layers"]:
            end = start + about.get("bytes", 0)
            stages[about["name"]] = unpack(about, data[start:end])
            start = end
        net = assembled(stages, sparse)
        rows = tuple(Row(**row) for row in head["rows"])
        net.report = Report(rows, head["original_bytes"], size)
    except FileNotFoundError:
        raise
    except Exception as error:  # torch.load raises nearly anything for a damaged file
        reason = one_line(error)[:200]
        raise ValueError(f"{path} is no compact network that can be read ({reason}): write it anew") from error
    return net


def _dense_bytes(about: dict) -> int:
    """What a layer takes: its weights, its biases, and the gaps between the weights while it is made."""
    if about["kind"] in KINDS:
        return 0
    numbers = (*about["shape"], about.get("nonzero", 0))
    if not all(isinstance(n, int) and 0 <= n < 2**40 for n in numbers):
        raise ValueError("its shapes are no whole numbers")
    return 4 * (math.prod(about["shape"]) + about["shape"][0]) + 12 * about.get("nonzero", 0)


def _tuples(value: Any) -> Any:
    """JSON's lists as the tuples they were."""
    if isinstance(value, dict):
        return {key: _tuples(v) for key, v in value.items()}
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
