"""What two processes of one run compute, started by test_distributed.py; results go to a folder."""

import os
import signal
import threading
from pathlib import Path

import torch
from torch import nn

from tests.composing import tiny
from tests.conftest import no_pictures
from tests.processes import wait_for
from varnet.base import distributed, silence
from varnet.cli.train import run
from varnet.data import Loader
from varnet.runs.build import build_model, load_data
from varnet.runs.identity import identity
from varnet.train import batch_norm
from varnet.train.trainer import Trainer

NETWORK = ("model.width=0.1", "schedule.batch_size=17", "schedule.epochs=2")  # parts of 8 and 9, and of 3
DETERMINISTIC = ("param=deterministic", "param.l2=0.1", *NETWORK)
SAMPLES = 120


def work(rank: int, port: int, folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ |= {  # as torchrun does, whose process, here the test, keeps the store at which the ranks meet
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
    }  # fmt: skip
    silence.AFTER = 0.3
    with distributed.joined(torch.device("cpu"), 20.0), no_pictures():
        results = {
            "norm": norm(rank), "gradients": gradients(folder), "noise": noise(), "told": told(rank),
            "batches": list(loader()),
            "silence": stopped(rank),
            "metrics": run(tiny(folder / "two", *DETERMINISTIC)),
        }  # fmt: skip
        distributed.gathered(rank)  # neither leaves before the other has all that it was sent
    torch.save(results, folder / f"rank{rank}.pt")


def stopped(rank: int) -> list[str]:
    """The second rank is stopped by SIGSTOP until the first has said that it is silent."""
    said, (_, other) = [], distributed.gathered(os.getpid())
    watch = distributed._watch
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
        return distributed.gathered(said)[0]

    def wake() -> None:
        wait_for(lambda: said and is_stopped(other))
        os.kill(other, signal.SIGCONT)

    watch.say = said.append
    waker = threading.Thread(target=wake)
    waker.start()
    distributed.gathered(said)
    waker.join()
    return said


def is_stopped(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def batch() -> torch.Tensor:
    return torch.randn(7, 3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.double)


def norm(rank: int) -> dict:
    """Batch norm of a batch of 7, of which the ranks have 2 and 5."""
    net = batch_norm.pool_batch_norm(nn.Sequential(nn.BatchNorm2d(3)).double())
    x = batch()[slice(0, 2) if rank == 0 else slice(2, 7)].requires_grad_()
    out = net(x)
    (out.sin().sum() * (rank + 1)).backward()
    net.eval()
    parameters = distributed.summed(torch.stack([net[0].weight.grad, net[0].bias.grad]))
    return {
        "out": out.detach(),
        "x": x.grad,
        "parameters": parameters,
        "state": net.state_dict(),
        "kept": net(batch()).detach(),
    }


def loader() -> Loader:
    """Of 23 images, which two ranks cannot share evenly."""
    x = torch.arange(23 * 3 * 64).remainder(256).to(torch.uint8).view(23, 3, 8, 8)
    return Loader(x, torch.arange(23), 8, shuffle=True, augment=True, seed=4)


def gradients(folder: Path) -> torch.Tensor:
    """Gradients of the same weights and batch, over and over: (samples, parameters)."""
    cfg = tiny(folder / "gradients", "param=layer", "param.log_alpha=-1", *NETWORK)
    data = load_data(cfg)
    torch.manual_seed(0)
    trainer = Trainer(cfg, build_model(cfg, data), data, torch.device("cpu"), folder, identity(cfg))
    distributed.part_ways(trainer.model, cfg.seed)
    trainer.optimizer.step = lambda: None
    x, y = next(iter(trainer.loader))
    samples = []
    for _ in range(SAMPLES):
        trainer.train_step(x, y)
        samples.append(torch.cat([p.grad.flatten() for p in trainer.model.parameters()]))
    return torch.stack(samples)


def noise() -> list:
    """The draws of both ranks after they part ways, twice."""
    draws = []
    for _ in range(2):
        distributed.part_ways(nn.Linear(2, 2), seed=5)
        draws.append(distributed.gathered(torch.randn(3)))
    return draws


def told(rank: int) -> list:
    """What the first rank finds and raises reaches the other."""

    def fail() -> None:
        raise ValueError("only the first can know")

    found = [distributed.from_first(lambda: f"made by {rank}"), distributed.largest(rank, 5 - rank)]
    try:
        distributed.from_first(fail)
    except ValueError as error:
        found.append(str(error))
    return found
