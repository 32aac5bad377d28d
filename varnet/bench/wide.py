"""Steps of the VGG-like network, conv11 to conv13 and dense1 random, against the same network without noise, against a
plain torch loop with a DataLoader, and against what the processor can do: a large product, measured in the same run.

Operations are those of three passes of the network, forward and two backward; a random layer has two products for one.
"""

import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from varnet.bench.data import Images, vgg
from varnet.bench.timing import interleaved
from varnet.data import Dataset
from varnet.nn.layers import Variational
from varnet.runs.build import build_model, load_data
from varnet.runs.composing import composed
from varnet.runs.identity import identity
from varnet.train.trainer import Trainer

WIDTHS = (0.5, 1.0)
STEPS, REPEATS = 4, 5  # steps in a measurement, rounds
TARGET = 1.16  # times the network without noise
SIZE = 2048  # rows and columns of the product
OPTIONS = (
    "model=vgg", "model.dropout=false", "dataset=digits", "dataset.augment=true", "dataset.train_size=1200",
    "schedule.epochs=1000000",
)  # fmt: skip
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def case(width: float) -> str:
    return f"VGG-like, width {width:g}"


def row(width: float, args) -> dict:
    """All four in turn, ours in the memory format that is the faster one here."""
    how = (*OPTIONS, f"model.width={width}", f"precision={args.precision}", f"schedule.batch_size={args.batch}")
    cfg, plain = composed(*how), composed(*how, "param=deterministic")
    data = load_data(cfg)
    with tempfile.TemporaryDirectory() as folder:
        trainer = made(cfg, data, Path(folder))
        trainer._measure_layout()
        plain.channels_last = trainer.channels_last
        without = made(plain, data, Path(folder))
        cases = {
            "loop": loop(trainer), "no noise": bare(without),
            "torch": torch_loop(vgg(width), data, args.batch, args.precision), "product": product(args.precision),
        }  # fmt: skip
        seconds = interleaved(cases, args.repeats or REPEATS, warmup=1)
    step = {name: seconds[name] / STEPS for name in ("loop", "no noise", "torch")}
    work = {"loop": operations(trainer.model, data), "no noise": operations(without.model, data)}
    return {
        "network": f"{case(width)}, batch {args.batch}, {args.precision}, {_layout(trainer)}",
        "step, ms": 1000 * step["loop"],
        "to no noise": step["loop"] / step["no noise"],
        "target": TARGET,
        "to torch with a DataLoader": step["loop"] / step["torch"],
        "GFLOP/s": args.batch * work["loop"] / step["loop"] / 1e9,
        "no noise, GFLOP/s": args.batch * work["no noise"] / step["no noise"] / 1e9,
        "product, GFLOP/s": 2 * SIZE**3 / seconds["product"] / 1e9,
    }


def made(cfg, data: Dataset, folder: Path) -> Trainer:
    return Trainer(cfg, build_model(cfg, data), data, torch.device("cpu"), folder, identity(cfg))


def _layout(trainer: Trainer) -> str:
    return "channels-last" if trainer.channels_last else "NCHW"


def loop(trainer: Trainer, steps: int = STEPS) -> Callable[[], None]:
    """Steps as the trainer takes them: batches from the loader, rates, sums, checks."""
    trainer.model.train()
    batches = endless(trainer.loader)

    def run() -> None:
        for _ in range(steps):
            trainer.train_step(*next(batches))
        trainer._check_finite()

    return run


def bare(trainer: Trainer) -> Callable[[], None]:
    """Forward, backward and optimizer of a network without noise, on one fixed batch."""
    model, optimizer = trainer.model.train(), trainer.optimizer
    (x, y), size = next(iter(trainer.loader)), len(trainer.data.train_y)

    def run() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            with trainer._autocast():
                out = model(x)
            (size * F.cross_entropy(out.float(), y)).backward()
            optimizer.step()

    return run


def torch_loop(model: nn.Module, data: Dataset, batch: int, precision: str) -> Callable[[], None]:
    """What one would write first: torchvision's transforms, a DataLoader, Adam, a network without noise."""
    batches = endless(torch.utils.data.DataLoader(Images(data), batch, shuffle=True, drop_last=True))
    optimizer = torch.optim.Adam(model.parameters())

    def run() -> None:
        for _ in range(STEPS):
            x, y = next(batches)
            optimizer.zero_grad()
            with torch.autocast("cpu", DTYPES[precision], enabled=precision != "fp32"):
                out = model(x)
            F.cross_entropy(out.float(), y).backward()
            optimizer.step()

    return run


def product(precision: str) -> Callable[[], object]:
    """As fast as this machine multiplies."""
    a, b = (torch.randn(SIZE, SIZE).to(DTYPES[precision]) for _ in range(2))
    return lambda: a @ b


def operations(model: nn.Module, data: Dataset) -> float:
    """Of a training step, for each image: additions and multiplications of its products."""
    counted: list[float] = []

    def count(layer: nn.Module, _inputs: tuple, out: torch.Tensor) -> None:
        weight = layer.weight_shape if isinstance(layer, Variational) else layer.weight.shape
        places = out[0].numel() / weight[0]  # of a filter in the image
        counted.append(2 * math.prod(weight) * places * (2 if isinstance(layer, Variational) else 1))

    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d | Variational)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        with torch.no_grad():
            model.eval()(next(iter(data.loader("test", 1)))[0])
    finally:
        for hook in hooks:
            hook.remove()
    return 3 * sum(counted)


def endless(loader):
    while True:
        yield from loader
