"""A trained network -> a small one: removed weights and units, a file without zeros, ONNX (varnet.compress.onnx)."""

from varnet.compress.compacting import Compact, compact, deterministic
from varnet.compress.packed import load, save

__all__ = ["Compact", "compact", "deterministic", "load", "save"]
