"""What the training loop adds to the bare step: forward, backward and optimizer of the same network. And what noise,
loop and data cost the VGG-like network at half and at full width (wide.py)."""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F

from varnet import kl
from varnet.bench import wide
from varnet.bench.timing import interleaved
from varnet.errors import ConfigError
from varnet.runs.build import build_model, load_data
from varnet.runs.composing import composed
from varnet.runs.identity import identity
from varnet.train.optimizer import make_optimizer
from varnet.train.trainer import Trainer

STEPS = 10  # per measurement
TARGET = 1.03
CASES = {
    "LeNet-5, batch 200, layer-wise dense1": ("dataset=digits", "dataset.train_size=1200"),
    "LeNet-5, batch 200, all four layers": ("dataset=digits", "dataset.train_size=1200", "param.layers=all"),
    "VGG-like, width 0.25, batch 100": ("model=vgg", "model.width=0.25", "dataset=digits", "dataset.train_size=1200"),
}


def run(args) -> dict[str, list[dict]]:
    """Those cases whose names have the words of --only in them."""
    small = [row(name, overrides, args) for name, overrides in CASES.items() if args.only in name]
    large = [wide.row(width, args) for width in wide.WIDTHS if args.only in wide.case(width)]
    if not small and not large:
        known = "; ".join([*CASES, *map(wide.case, wide.WIDTHS)])
        raise ConfigError("is in the name of no case: choose from " + known, "only", args.only)
    return {name: rows for name, rows in (("rows", small), ("random layers", large)) if rows}


def row(name: str, overrides: tuple[str, ...], args) -> dict:
    cfg = composed(*overrides, "schedule.epochs=1000000")
    data = load_data(cfg)
    repeats = args.repeats or (5 if cfg.model.name == "vgg" else 25)
    with tempfile.TemporaryDirectory() as folder:
        loop, bare = looped(cfg, data, Path(folder)), bare_steps(cfg, data)
        seconds = interleaved({"loop": loop, "bare": bare}, repeats, warmup=1)
    return {
        "network": name,
        "bare step, ms": 1000 * seconds["bare"] / STEPS,
        "step of the loop, ms": 1000 * seconds["loop"] / STEPS,
        "ratio": seconds["loop"] / seconds["bare"],
        "target": TARGET,
    }


def looped(cfg, data, folder: Path):
    """The trainer's own steps."""
    return wide.loop(Trainer(cfg, build_model(cfg, data), data, torch.device("cpu"), folder, identity(cfg)), STEPS)


def bare_steps(cfg, data):
    """The same network, loss and optimizer, on one fixed batch."""
    trainer = Trainer(cfg, build_model(cfg, data), data, torch.device("cpu"), Path(), identity(cfg))
    model, optimizer = trainer.model.train(), make_optimizer(trainer.model, cfg, len(trainer.data.train_y))
    x, y = next(iter(trainer.loader))
    size = len(data.train_y)

    def run() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            (size * F.cross_entropy(model(x), y) + kl(model)).backward()
            optimizer.step()

    return run
