"""Where a number comes from: seed, commit, versions, machine."""

import functools
import os
import platform
import subprocess
from importlib.metadata import distributions
from pathlib import Path

import torch
from omegaconf import DictConfig

import varnet
from varnet.base import distributed


def provenance(cfg: DictConfig) -> dict:
    """What a number needs beside it: seed, commit, versions, machine."""
    return {
        "seed": cfg.seed,
        "commit": commit(),
        "versions": {"python": platform.python_version(), **installed()},
        "machine": {
            "system": platform.system(), "processor": platform.machine(), "threads": torch.get_num_threads(),
            "processes": distributed.world_size(),
        },
    }  # fmt: skip


@functools.cache
def installed() -> dict[str, str]:
    """Versions of the packages that numbers depend on; numba draws noise where it is installed."""
    packages = ("torch", "torchvision", "numpy", "numba", "hydra-core")
    return {d.name: d.version for name in packages for d in distributions(name=name)}


def commit() -> str | None:
    """Of the checkout that varnet runs from; `-dirty` if it has changes that are not committed."""
    root = Path(varnet.__file__).resolve().parent.parent
    if not (root / "configs").is_dir():  # installed, perhaps inside of a checkout of something else
        return None
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=root, capture_output=True, text=True, timeout=10, check=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
