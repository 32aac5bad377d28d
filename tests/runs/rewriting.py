"""Run folders that say something else than the run did, and agree with themselves."""

from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from varnet.runs import checksums
from varnet.runs.folder import CONFIG
from varnet.runs.identity import identity
from varnet.train import checkpoint


def rewritten(folder: Path, cfg: DictConfig) -> None:
    """Another configuration in every place that tells of it but the folder's name; no checksums."""
    (folder / checksums.NAME).unlink(missing_ok=True)
    OmegaConf.save(cfg, folder / CONFIG, resolve=True)
    for path in folder.glob("*.pt"):
        torch.save(checkpoint.read(path) | {"config": identity(cfg)}, path)
