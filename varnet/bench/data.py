"""Input pipeline: varnet's Loader against a plain torchvision-style Dataset + DataLoader, per epoch, on the CPU.

Both deliver the same batches (shuffled, float, normalised; CIFAR-10 cropped and flipped per image). Also what a batch
costs beside the training step it feeds, and (on Linux) the peak memory of loading and iterating beside that of the
uint8 images. They are the cached ones where they have been fetched, else random bytes of the same shape.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from varnet.bench.timing import interleaved
from varnet.data import Dataset, load
from varnet.data.fetch import cache_path
from varnet.data.folder import data_folder
from varnet.launch.pool import run_all

SHAPES = {"mnist": (60_000, 1, 28, 28), "cifar10": (50_000, 3, 32, 32)}
BATCH = {"mnist": 200, "cifar10": 100}
FASTER = {"mnist": 20, "cifar10": 12}
SHARE = {"mnist": 0.02, "cifar10": 0.01}
MEMORY = 1.3
STATUS = Path("/proc/self/status")  # of Linux


def run(args) -> list[dict]:
    repeats = args.repeats or 3
    rows = [memory_row(name) for name in SHAPES] if STATUS.exists() else []
    for name, network in (("mnist", "LeNet-5"), ("cifar10", "VGG (width 0.25)")):
        data, origin = dataset(name)
        seconds = epochs(name, data, repeats)
        ours, theirs = seconds["ours"], seconds["DataLoader"]
        rows.append(row(f"{name}: epoch, DataLoader / ours", ours, theirs, theirs / ours, FASTER[name], origin))
        step = step_seconds(name, repeats)
        batch = ours / (len(data.train_y) // BATCH[name])
        rows.append(row(f"{name}: batch / {network} step", batch, step, batch / step, -SHARE[name], origin))
    return rows


def row(measure: str, ours: float, other: float, ratio: float, bound: float, data: str) -> dict:
    """A negative bound is an upper one."""
    met = ratio >= bound if bound > 0 else ratio <= -bound
    wanted = f">= {bound}" if bound > 0 else f"<= {-bound}"
    values = {"ours": float(ours), "other": float(other), "ratio": float(ratio)}
    return {"measure": measure, **values, "wanted": wanted, "met": "yes" if met else "NO", "data": data}


def dataset(name: str) -> tuple[Dataset, str]:
    if cache_path(name, data_folder()).exists():
        return load(name, augment=name != "mnist"), "real"
    count, *shape = SHAPES[name]
    x = torch.randint(0, 256, (count, *shape[1:], shape[0]), dtype=torch.uint8).permute(0, 3, 1, 2)
    y = torch.randint(0, 10, (count,))
    normal = {"mean": (0.49, 0.48, 0.45), "std": (0.25, 0.24, 0.26)} if name != "mnist" else {}
    return Dataset(name, x, y, x[:1], y[:1], 10, "random", augment=name != "mnist", **normal), "random bytes"


class Images(torch.utils.data.Dataset):
    """What torchvision's MNIST and CIFAR10 do for one image: array -> PIL -> transform."""

    def __init__(self, data: Dataset) -> None:
        from torchvision import transforms as T

        steps = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip()] if data.augment else []
        steps += [T.ToTensor()] + ([T.Normalize(data.mean, data.std)] if data.mean else [])
        self.transform = T.Compose(steps)
        self.images, self.labels = data.train_x.permute(0, 2, 3, 1).numpy(), data.train_y.tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        image = self.images[index]
        return self.transform(Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)), self.labels[index]


def epochs(name: str, data: Dataset, repeats: int) -> dict[str, float]:
    ours = data.loader("train", BATCH[name])  # the slower memory format, as the DataLoader's
    theirs = DataLoader(Images(data), BATCH[name], shuffle=True)
    return interleaved({"ours": lambda: consume(ours), "DataLoader": lambda: consume(theirs)}, repeats, warmup=1)


def consume(loader) -> None:
    for _ in loader:
        pass


def step_seconds(name: str, repeats: int) -> float:
    """One Adam step of the plain network, channels-last: the fastest step the loader has to keep up with."""
    net = (lenet5() if name == "mnist" else vgg()).to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(net.parameters(), fused=True)
    x = torch.randn(BATCH[name], *SHAPES[name][1:]).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (BATCH[name],))

    def step() -> None:
        adam.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        adam.step()

    return interleaved({"step": step}, 5 * repeats, warmup=2)["step"]


def lenet5() -> nn.Module:
    features = [nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU()]
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def vgg(width: float = 0.25) -> nn.Module:
    layers, channels = [], 3
    for block in ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3):
        for out in (int(width * c) for c in block):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    head = [nn.Flatten(), nn.Linear(channels, channels), nn.BatchNorm1d(channels), nn.ReLU(), nn.Linear(channels, 10)]
    return nn.Sequential(*layers, *head)


def memory_row(name: str) -> dict:
    """In a process of its own: highest memory while loading and iterating, less what the imports took and one batch."""
    (outcome,) = run_all(memory_growth, [name])
    if outcome.error:
        raise RuntimeError(f"{name}: {outcome.error}")
    grown, images, origin = outcome.result
    batch = BATCH[name] * SHAPES[name][1] * SHAPES[name][2] * SHAPES[name][3] * 4
    ours = (grown - batch) / 1e6
    return row(f"{name}: peak MB / uint8 MB", ours, images / 1e6, ours * 1e6 / images, -MEMORY, origin)


def memory_growth(name: str) -> tuple[int, int, str]:
    torch.set_num_threads(1)
    tiny = Dataset("tiny", *(torch.zeros(8, *SHAPES[name][1:], dtype=torch.uint8), torch.zeros(8).long()) * 2, 10, "")
    consume(tiny.loader("train", 4, augment=True))  # whatever the first batch imports and allocates for good
    before = resident("VmRSS")
    data, origin = dataset(name)
    consume(data.loader("train", BATCH[name], channels_last=True))
    return resident("VmHWM") - before, data.train_x.nbytes + data.test_x.nbytes, origin


def resident(field: str) -> int:
    return next(int(line.split()[1]) * 1024 for line in STATUS.read_text().splitlines() if line.startswith(field))
