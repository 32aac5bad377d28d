"""What makes two runs the same run: their configuration without what does not change the result."""

import hashlib
import json

from omegaconf import DictConfig, OmegaConf

from varnet.base.nested import without_nulls
from varnet.errors import shown

# What may differ between the start of a run and its continuation, and is no part of its identity.
HARMLESS = ("eval.every", "eval.final_elbo_samples", "eval.test")
RUNTIME = (
    "out_dir", "data_dir", "resume", "render", "device", "threads", "jobs", "checkpoint_every", "checkpoint_minutes",
    "patience_minutes", "snapshots", "name",
)  # fmt: skip


def identity(cfg: DictConfig) -> dict:
    """The resolved configuration without what does not change the result, and without nulls: a new option whose
    default is null leaves the identity of earlier runs as it was."""
    return identity_of(plain(cfg))


def identity_of(values: dict) -> dict:
    """The same for a configuration that is resolved already."""
    own = {key: value for key, value in values["eval"].items() if f"eval.{key}" not in HARMLESS}
    kept = {key: value for key, value in (values | {"eval": own}).items() if key not in RUNTIME}
    if kept.get("likelihood") == {"name": "categorical"}:  # as without it
        del kept["likelihood"]
    return without_nulls(kept)


def plain(cfg: DictConfig) -> dict:
    return OmegaConf.to_container(cfg, resolve=True)


def digest(cfg: DictConfig) -> str:
    return digest_of(plain(cfg))


def digest_of(values: dict) -> str:
    """The same for a configuration that is resolved already."""
    return hashlib.sha256(json.dumps(identity_of(values), sort_keys=True).encode()).hexdigest()[:8]


def differences(mine: dict, saved: dict, prefix: str = "") -> list[str]:
    """key=mine (saved: value), for every leaf that differs."""
    lines = []
    for key in sorted(mine.keys() | saved.keys()):
        a, b = mine.get(key), saved.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            lines += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            lines.append(f"{prefix}{key}={shown(a)} (the run has {shown(b)})")
    return lines
