"""One run on several processes (torchrun): what they share, and what is said once. Alone, a process passes through here
unchanged.

Every rank holds the whole network and its own part of each batch. The gradients are summed, so the loss of a rank is
its part of the loss: the cross-entropy of its objects, and the KL, which does not depend on the objects, divided by the
number of ranks. Sums are the same bits on every rank, so the networks stay equal. Noise differs between ranks and
follows from (seed, rank). Rank 0 writes; what fails there is raised on all, and a rank that is gone or silent is
noticed by all.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from varnet.base.ranks import launched, rank
from varnet.base.silence import Watch
from varnet.errors import ConfigError, RankLost

T = TypeVar("T")
PATIENCE = 120.0  # minutes of the ranks that wait while rank 0 evaluates
_watch: Watch | None = None


def world_size() -> int:
    return dist.get_world_size() if active() else 1


def active() -> bool:
    return dist.is_available() and dist.is_initialized()


@contextlib.contextmanager
def joined(device: torch.device, patience: float | None = None) -> Iterator[None]:
    """Inside, the processes of a run know each other: nccl between GPUs, gloo for everything else.

    patience: minutes that they wait for one that is silent."""
    global _watch
    if not launched() or active():
        yield
        return
    if device.type == "mps" or device.index is not None:
        raise ConfigError(
            f"device={device} is one device, and torchrun makes several processes: use device=cuda or cpu"
        )
    if device.type == "cuda":
        local, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= gpus:
            raise ConfigError(f"--nproc_per_node asks for more than the {gpus} GPUs of this machine: use {gpus}")
        torch.cuda.set_device(local)
    patience = PATIENCE if patience is None else patience
    with _watched():
        store = _meet("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timedelta(minutes=patience))
    try:
        with Watch(store, rank(), world_size(), 60 * patience).running() as _watch:
            yield
    finally:
        _watch = None
        dist.destroy_process_group()


def _meet(backend: str, patience: timedelta) -> dist.Store:
    """After a restart by torchrun the processes must not find the addresses of those before. Returns a store that
    another thread may use."""
    store, rank, world_size = next(rendezvous("env://", timeout=patience))
    store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=patience)
    return dist.PrefixStore("watch", store.clone() if hasattr(store, "clone") else store)


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    try:
        with _watch.waiting() if _watch else contextlib.nullcontext():
            yield
    except RankLost:
        raise
    except RuntimeError as error:  # what gloo and nccl raise when a peer is gone
        raise RankLost("another process of this run ended; its message, or torchrun's report, says why") from error


# ---- one for all


def from_first(make: Callable[[], T]) -> T:
    """What rank 0 makes, on every rank; what it raises too."""
    if not active():
        return make()
    outcome: list = [None, None]
    if rank() == 0:
        try:
            outcome[0] = make()
        except Exception as error:
            outcome[1] = error
    with _watched():
        dist.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        outcome[1].shared = True
        raise outcome[1]
    return outcome[0]


def after_first(make: Callable[[], T]) -> T:
    """Made by rank 0 and then by the others, who find what it has downloaded."""
    made: list[T] = []
    from_first(lambda: made.append(make()))
    return made[0] if made else make()


def gathered(mine: T) -> list[T]:
    """What every rank has, in order."""
    if not active():
        return [mine]
    everything: list = [None] * world_size()
    with _watched():
        dist.all_gather_object(everything, mine)
    return everything


def largest(*numbers: int) -> list[int]:
    """The largest over the ranks, number by number; waits for no device."""
    if not active():
        return [int(n) for n in numbers]
    values = torch.tensor([int(n) for n in numbers])
    with _watched():
        dist.all_reduce(values, dist.ReduceOp.MAX)
    return values.tolist()


def summed(values: Tensor) -> Tensor:
    """The sum over the ranks, in place."""
    if active():
        with _watched():
            dist.all_reduce(values)
    return values


def sum_gradients(parameters: Iterable[nn.Parameter], loss: Tensor) -> Tensor:
    """Gradients and loss summed over the ranks in one message; returns the loss."""
    if not active():
        return loss
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = summed(torch.cat([*(g.flatten() for g in gradients), loss.to(torch.float32).reshape(1)]))
    for gradient, values in zip(gradients, flat[:-1].split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(values.view(gradient.shape))
    return flat[-1]


# ---- the same weights, other noise


def noise_seed(seed: int, rank: int, step: int = 0) -> int:
    """Of the noise of a rank; torch's generators use 32 bits of it."""
    return int.from_bytes(hashlib.sha256(f"{seed} {rank} {step}".encode()).digest()[:4], "big")


def part_ways(model: nn.Module, seed: int) -> None:
    """Every rank starts from the weights of rank 0, and draws noise of its own from here on."""
    if not active():
        return
    for tensor in (*model.parameters(), *model.buffers()):
        with _watched():
            dist.broadcast(tensor.detach(), src=0)
    torch.manual_seed(noise_seed(seed, rank()))
