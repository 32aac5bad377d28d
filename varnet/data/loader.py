"""Batches from a dataset that lies as one tensor on the device: no workers, no copies but the batch itself.

All randomness of an epoch (the order, each image's crop and flip) is drawn on the CPU when the epoch begins. So it is
the same on every device; a state holds only the generator's state at that moment and the number of batches done; and
every rank of a distributed run draws all of it and takes its own part of each batch: together the ranks see, image for
image and crop for crop, the batches of a single process.
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from varnet.base.checks import one_of
from varnet.data.augment import ALTERNATING, DRAWS, crop_flip
from varnet.errors import ConfigError, DataError


class Loader:
    """Iterate for one epoch of (x, y): x float32 on the device, in [0, 1] or normalised by mean and std.

    x, y           images uint8 (N, channels, height, width), or features float (N, ...); labels (N,)
    batch_size     of the whole run, not of one rank; None: all at once
    mean, std      per channel, of images in [0, 1]
    channels_last  memory format of the batches; images stored channels-last are then not rearranged
    augment        draw a crop and a flip for every image; "alternating": every image is flipped in every second epoch,
                   the first time at random, so that two epochs show both sides of all
    seed           of the order and the augmentation
    rank, world_size   by default those of torch.distributed

    The last batch holds what is left. If that is less than two images per rank, which batch norm cannot train on, it
    joins the batch before it: every rank takes the same number of batches and every image is seen once.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        batch_size: int | None = None,
        device: str | torch.device = "cpu",
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
        shuffle: bool = False,
        augment: bool | str = False,
        channels_last: bool = False,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        distributed = dist.is_available() and dist.is_initialized()
        self.rank = rank if rank is not None else dist.get_rank() if distributed else 0
        self.world_size = world_size if world_size is not None else dist.get_world_size() if distributed else 1
        self.batch_size = len(x) if batch_size is None else batch_size
        self.shuffle, self.augment, self.channels_last = shuffle, augment, channels_last
        self.images = x.dtype == torch.uint8
        self._check(x, y)
        self.x = x.to(device).permute(0, 2, 3, 1).contiguous() if self.images else x.to(device)  # (N, H, W, C)
        self.y = y.to(device)
        self.shift = self._per_value(mean) if self.images and mean is not None else None
        self.scale = self._per_value(std or (1.0,) * x.shape[1]) if self.images else None
        self.bounds = self._bounds()
        self.generator = torch.Generator().manual_seed(seed)
        self._epoch_start = self.generator.get_state()
        self._first_flips = torch.randint(2, (len(x),), generator=torch.Generator().manual_seed(seed))
        self._epoch = 0  # epochs that are over
        self._done = 0  # batches of the epoch that have been handed out
        self._resume_at = 0

    def __len__(self) -> int:
        """Batches per epoch, the same on every rank."""
        return len(self.bounds)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        first, self._resume_at = self._resume_at, 0
        self._epoch_start = self.generator.get_state()
        order, draws = self._draw_epoch()
        for batch in range(first, len(self)):
            self._done = batch + 1
            yield self._batch(self._part_of_rank(*self.bounds[batch]), order, draws)
        self._epoch_start, self._done = self.generator.get_state(), 0
        self._epoch += 1

    @property
    def whole(self) -> int:
        """The size, over all ranks, of the batch that was handed out last."""
        start, stop = self.bounds[self._done - 1]
        return stop - start

    def state_dict(self) -> dict:
        """Everything the next batches depend on; taken between two batches or two epochs."""
        return {
            "generator": self._epoch_start,
            "done": self._done,
            "epoch": self._epoch,
            "size": len(self.y),
            "batch_size": self.batch_size,
        }

    def load_state_dict(self, state: dict) -> None:
        """The next iteration hands out the rest of the epoch in which the state was taken."""
        for key, mine in (("size", len(self.y)), ("batch_size", self.batch_size)):
            if state[key] != mine:
                raise DataError(
                    f"{key}={mine} differs from the {state[key]} of the saved run: resume with {state[key]}."
                )
        self.generator.set_state(state["generator"].cpu())
        self._epoch_start, self._done = state["generator"].cpu(), state["done"]
        self._resume_at, self._epoch = state["done"], state.get("epoch", 0)

    def _check(self, x: Tensor, y: Tensor) -> None:
        size = self.batch_size
        if len(x) != len(y):
            raise DataError(f"{len(x)} images come with {len(y)} labels: give one label for each.")
        if len(x) < self.world_size:
            raise DataError(f"{len(x)} images are too few for {self.world_size} processes: use fewer processes.")
        if not isinstance(size, int) or isinstance(size, bool) or size < self.world_size:
            raise ConfigError(
                f"is invalid: use a whole number from {self.world_size}, one per process", "batch_size", size
            )
        one_of(True, False, ALTERNATING)("augment", self.augment)
        if self.augment and not self.images:
            raise ConfigError("crops and flips uint8 images, and these are points: use augment=false", "augment", True)

    def _per_value(self, per_channel: tuple[float, ...]) -> Tensor:
        """In uint8 units, repeated for every value of an image: on a CPU twice as fast as broadcasting."""
        _, height, width, channels = self.x.shape
        values = (torch.tensor(per_channel) * 255).expand(height, width, channels)
        return (values if self.channels_last else values.permute(2, 0, 1)).reshape(-1).to(self.x.device)

    def _bounds(self) -> list[tuple[int, int]]:
        size = len(self.y)
        starts = list(range(0, size, self.batch_size))
        if len(starts) > 1 and size - starts[-1] < min(2 * self.world_size, self.batch_size):
            starts.pop()
        return list(zip(starts, [*starts[1:], size], strict=True))

    def _part_of_rank(self, start: int, stop: int) -> slice:
        count = stop - start
        return slice(start + count * self.rank // self.world_size, start + count * (self.rank + 1) // self.world_size)

    def _draw_epoch(self) -> tuple[Tensor | None, Tensor | None]:
        size, device = len(self.y), self.y.device
        order = torch.randperm(size, generator=self.generator) if self.shuffle else None
        draws = torch.randint(DRAWS, (size,), generator=self.generator) if self.augment else None
        if draws is not None and self.augment == ALTERNATING:
            flips = (self._first_flips + self._epoch) % 2
            draws = draws // 2 * 2 + (flips if order is None else flips[order])
        return order if order is None else order.to(device), draws if draws is None else draws.to(device)

    def _batch(self, part: slice, order: Tensor | None, draws: Tensor | None) -> tuple[Tensor, Tensor]:
        if order is None:
            x, y = self.x[part], self.y[part]
        else:
            x, y = self.x.index_select(0, order[part]), self.y.index_select(0, order[part])
        if draws is not None:
            x = crop_flip(x, draws[part])
        return (self._to_float(x) if self.images else x.float()), y

    def _to_float(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        if not self.channels_last:
            x = x.permute(0, 3, 1, 2)
        x = x.reshape(batch, -1).float()
        if self.shift is not None:
            x = x.sub_(self.shift)
        x = x if self.scale is None else x.div_(self.scale)
        if self.channels_last:
            return x.view(batch, height, width, channels).permute(0, 3, 1, 2)
        return x.view(batch, channels, height, width)
