"""K-sample evaluation: ours (shared prefix, channels-last) against a plain loop of K full passes through textbook
layers in NCHW, on the same images; and the growth with K beside three public libraries (extra `bench`).

The plain loop runs in a process of its own, as anyone's would: without the settings of varnet.device.tune_cpu, which
save the loop up to a third of its time. "ratio, tuned" is to the same loop with these settings.

--figure FILE draws the growth."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor, nn

from varnet.bench.layers import TextbookLayer, peers, textbook
from varnet.bench.timing import interleaved
from varnet.evaluation.predictions import CPU_ROWS, predict
from varnet.nn.networks import build

SAMPLES, COUNTS = 20, (1, 5, 20, 100, 200)
VGG = {"width": 0.25, "dropout": False}
ALL_FOUR = {"bias": True, "batch_norm": ["dense1"]}
CASES = {  # name -> (network, input, variational layers, options, images, target)
    "LeNet-5, dense1": ("lenet5", (1, 28, 28), ["dense1"], {}, 1000, 0.05),
    "VGG-like 0.25, conv11-13, dense1": ("vgg", (3, 32, 32), ["conv11", "conv12", "conv13", "dense1"], VGG, 200, 0.25),
    "LeNet-5, all four": ("lenet5", (1, 28, 28), "all", ALL_FOUR, 400, 0.35),
}


def batches(in_shape: tuple[int, ...], images: int, channels_last: bool) -> list[tuple[Tensor, Tensor]]:
    x, y = torch.rand(images, *in_shape), torch.randint(10, (images,))
    x = x.to(memory_format=torch.channels_last) if channels_last else x
    return list(zip(x.split(CPU_ROWS), y.split(CPU_ROWS), strict=True))


def plain_loop(model: nn.Module, data: list[tuple[Tensor, Tensor]], samples: int) -> Tensor:
    """K full passes, softmax averaged: what one would write first, and what the libraries' examples do."""
    with torch.no_grad():
        return torch.cat([torch.stack([model(x).softmax(1) for _ in range(samples)]).mean(0) for x, _ in data])


def baseline(network: str, in_shape: tuple[int, ...], layers, options: dict) -> nn.Module:
    model = textbook(build(network, in_shape, 10, layers="none", **options))
    for name, module in list(model.named_children()):
        if isinstance(module, TextbookLayer) and layers != "all" and name not in layers:
            setattr(model, name, module.layer)
    return model.eval()


def ours(network: str, in_shape: tuple[int, ...], layers, options: dict) -> nn.Module:
    return build(network, in_shape, 10, layers=layers, **options).to(memory_format=torch.channels_last)


def plain_process(pipe: Connection, case: str, threads: int) -> None:
    """One plain loop for every message, in a process that varnet has not tuned."""
    torch.set_num_threads(threads)
    network, in_shape, layers, options, images, _target = CASES[case]
    model, data = baseline(network, in_shape, layers, options), batches(in_shape, images, False)
    while pipe.recv():
        plain_loop(model, data, SAMPLES)
        pipe.send(True)


@contextmanager
def untuned(case: str, threads: int) -> Iterator:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=plain_process, args=(there, case, threads))
    process.start()
    there.close()  # so that an end of the other process is noticed

    def loop() -> None:
        here.send(True)
        here.recv()

    yield loop
    here.send(False)
    process.join()


def run(args) -> dict[str, list[dict]]:
    rows = []
    for name, (network, in_shape, layers, options, images, target) in CASES.items():
        slow, fast = (make(network, in_shape, layers, options) for make in (baseline, ours))
        nchw, nhwc = (batches(in_shape, images, last) for last in (False, True))
        with untuned(name, args.threads) as loop:
            cases = {
                "plain": loop,
                "tuned": lambda m=slow, d=nchw: plain_loop(m, d, SAMPLES),
                "ours": lambda m=fast, d=nhwc: predict(m, d, samples=SAMPLES),
                "one pass": lambda m=fast, d=nhwc: predict(m, d, "deterministic"),
            }
            seconds = interleaved(cases, args.repeats or 5, warmup=1)
        rows.append(
            {
                "20 samples": name,
                "plain loop, ms per image": 1000 * seconds["plain"] / images,
                "ours, ms per image": 1000 * seconds["ours"] / images,
                "ratio": seconds["ours"] / seconds["plain"],
                "target": target,
                "ratio, tuned": seconds["ours"] / seconds["tuned"],
                "to one deterministic pass": seconds["ours"] / seconds["one pass"],
            }
        )
    return {"rows": rows, "growth": growth(args)}


def growth(args, images: int = 100) -> list[dict]:
    """Seconds for K samples of LeNet-5 on a few images."""
    in_shape = (1, 28, 28)
    nchw, nhwc = (batches(in_shape, images, last) for last in (False, True))
    models = {
        "varnet, dense1": (ours("lenet5", in_shape, ["dense1"], {}), nhwc, None),
        "varnet, all four": (ours("lenet5", in_shape, "all", ALL_FOUR), nhwc, None),
        "textbook, all four": (baseline("lenet5", in_shape, "all", ALL_FOUR), nchw, plain_loop),
    } | {f"{name}, all four": (model.eval(), nchw, plain_loop) for name, model in peers().items()}
    rows = []
    for count in COUNTS:
        cases = {
            name: (lambda m=m, d=d, k=count: predict(m, d, samples=k)) if loop is None else
            (lambda m=m, d=d, k=count: plain_loop(m, d, k))
            for name, (m, d, loop) in models.items()
        }  # fmt: skip
        seconds = interleaved(cases, 3 if count <= 20 else 1, warmup=1 if count <= 20 else 0)
        rows.append({"K": count, **{f"{name}, s": value for name, value in seconds.items()}})
    if args.figure:
        draw(rows, images, args.figure)
    return rows


def draw(rows: list[dict], images: int, path: Path) -> None:
    from varnet.base.files import write_atomically
    from varnet.base.plots import curves, rendered

    lines = {key.removesuffix(", s"): [1000 * r[key] / images for r in rows] for key in rows[0] if key != "K"}
    figure = curves([r["K"] for r in rows], lines, "K", "ms per image", "K-sample evaluation of LeNet-5, one thread")
    figure.axes[0].set(xscale="log", yscale="log", xticks=COUNTS, xticklabels=COUNTS)
    figure.axes[0].minorticks_off()
    write_atomically(path, rendered(figure))
