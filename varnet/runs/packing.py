"""A compact network (compress/packed.py) as tensors of bytes and a description, for a stored network and back."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from varnet.base import tensors
from varnet.base.checks import list_of, whole
from varnet.compress.packed import KINDS, Compact, Report, Row, assembled, pack, unpack
from varnet.errors import one_line

LARGEST = 2**26  # weights of all layers, zeros included: what a description may ask for
WEIGHTED = ("Linear", "Conv2d")


def packed(net: Compact) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(bytes of each layer that has weights, description)."""
    data, layers = {}, []
    for name, module in net.named_children():
        about, content = pack(module)
        layers.append({"name": name} | about)
        if content:
            data[name] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    about = {"layers": layers, "rows": [asdict(row) for row in net.report.rows]}
    return data, json.loads(json.dumps(about)) | {"original_bytes": net.report.original_bytes}


def unpacked(path: Path, card: dict[str, Any]) -> Compact:
    """The network of a file of these bytes. How large it becomes is known before it is."""
    try:
        layers = [_checked(layer) for layer in card["layers"]]
        if sum(math.prod(layer["shape"]) for layer in layers if layer["kind"] in WEIGHTED) > LARGEST:
            raise tensors.Unreadable(f"has a network of more than {LARGEST:,} weights")
        data = tensors.load(path, {layer["name"]: (layer["bytes"],) for layer in layers if "bytes" in layer})
        content = {name: tensor.numpy().tobytes() for name, tensor in data.items()}
        net = assembled({layer["name"]: unpack(layer, content.get(layer["name"], b"")) for layer in layers}, True)
        rows = tuple(Row(**row | {"shape": tuple(row["shape"])}) for row in card["rows"])
        net.report = Report(rows, card["original_bytes"], path.stat().st_size)
    except (ValueError, TypeError, KeyError, IndexError, RuntimeError, AttributeError) as error:
        if isinstance(error, tensors.Unreadable):
            raise
        raise tensors.Unreadable(f"does not fit its description ({one_line(error)[:200]})") from error
    return net


def _checked(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer of a known kind, its sizes numbers; lists as the tuples that they were."""
    if layer["kind"] not in (*WEIGHTED, *KINDS):
        raise tensors.Unreadable(f"has a layer of kind {layer['kind']}, which is not known")
    found = {key: tuple(value) if isinstance(value, list) else value for key, value in layer.items()}
    if layer["kind"] in WEIGHTED:
        list_of(whole(1), "sizes above 0")("shape", found["shape"])
        whole(1)("bytes", found["bytes"])
        if "nonzero" in found:
            whole(0, math.prod(found["shape"]))("nonzero", found["nonzero"])
    if "options" in found:
        found["options"] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in found["options"].items()
        }
    return found
