"""The real configs, and the same shrunken to two steps."""

from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from varnet.runs import composing

__all__ = ["ROOT", "composed", "tiny"]
GROUPS = ("likelihood", "dataset", "model", "param", "prior", "schedule", "experiment")
ROOT = Path(__file__).resolve().parent.parent
TINY = (
    "schedule.epochs=1", "schedule.warmup=0", "schedule.beta_from=0", "schedule.beta_until=0", "model.width=0.05",
    "dataset.train_size=40", "dataset.test_size=20", "schedule.batch_size=20", "eval.samples=2", "eval.elbo_samples=2",
    "eval.final_elbo_samples=null", "threads=1", "snapshots=null", "schedule.decay_from=null",
)  # fmt: skip


def tiny(folder: Path, *overrides: str) -> DictConfig:
    """Two steps on 40 embedded images (toy points for the toy network), results in `folder`."""
    dataset = (
        () if "model=toy" in overrides or any(o.startswith("dataset=") for o in overrides) else ("dataset=digits",)
    )
    small = [o for o in TINY if not (o.startswith("model.") and "model=custom" in overrides)]  # it has no width
    cfg = composed(*dataset, *small, *overrides)
    cfg.out_dir = str(folder)
    return cfg


def composed(*overrides: str) -> DictConfig:
    """What Hydra makes of them, faster: groups are composed once for all tests, and values set in them, if they need
    nothing of Hydra's own grammar."""
    choices = [o for o in overrides if o.partition("=")[0] in GROUPS]
    values = [o for o in overrides if o not in choices]
    if any(not o[0].isalpha() or "/" in o.partition("=")[0] or set(o) & set("{}'\"\\") for o in values):
        return composing.composed(*overrides)
    cfg = composing.composed(*choices)
    return cast(DictConfig, OmegaConf.merge(cfg, OmegaConf.from_dotlist(values)))
