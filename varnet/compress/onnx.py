"""The compact network for other programs: torch.export and ONNX, with dense layers of the reduced shapes."""

import importlib.util
import warnings
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from varnet.base.files import write_atomically
from varnet.compress.packed import Compact
from varnet.errors import ExportError

INSTALL = "pip install 'varnet[export]'"


def need(*packages: str) -> None:
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        raise ExportError(f"ONNX needs {' and '.join(missing)}, which is not installed: {INSTALL}")


def to_exported(net: Compact, in_shape: Iterable[int]) -> torch.export.ExportedProgram:
    """The network as a graph, for batches of any size."""
    if not isinstance(net, Compact):
        raise TypeError(f"{type(net).__name__} is not a compact network: give what varnet.compact makes of it")
    example = torch.zeros(2, *in_shape)
    batch = torch.export.Dim("batch")
    return torch.export.export(net.dense().to("cpu"), (example,), dynamic_shapes=({0: batch},))


def to_onnx(net: Compact, path: str | Path, in_shape: Iterable[int]) -> None:
    """An ONNX file with the input `x` and the output `y`; the first axis is the batch."""
    need("onnx", "onnxscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        program = torch.onnx.export(
            to_exported(net, in_shape), dynamo=True, input_names=["x"], output_names=["y"], verbose=False
        )
        content = program.model_proto.SerializeToString()
    write_atomically(Path(path), content)


def run_onnx(path: str | Path, x: Tensor) -> Tensor:
    """What onnxruntime makes of the file."""
    need("onnxruntime")
    import onnxruntime

    session = onnxruntime.InferenceSession(Path(path).read_bytes(), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(["y"], {"x": x.cpu().numpy()})[0])
