"""Random crop with padding 4 and horizontal flip, drawn for every image on its own, for a whole batch at once.

One draw per image holds it all: draw // 2 is one of the 9 x 9 = 81 crop positions, draw % 2 says whether to flip. Two
implementations give the same bytes: copying windows, about nine times as fast on a CPU, and one gather, for a GPU.
"""

import numpy as np
import torch
from torch import Tensor

PADDING = 4
SIDE = 2 * PADDING + 1  # crop positions in each direction
DRAWS = 2 * SIDE * SIDE
ALTERNATING = "alternating"  # flips: every image in every second epoch (Jordan 2024, airbench)


def crop_flip(x: Tensor, draws: Tensor) -> Tensor:
    """x: uint8 (batch, height, width, channels); draws: int64 (batch,) in [0, DRAWS). Black around the image."""
    return copy_windows(x, draws) if x.device.type == "cpu" else gather(x, draws)


def copy_windows(x: Tensor, draws: Tensor) -> Tensor:
    batch, height, width, channels = x.shape
    padded = _pad(x).numpy().reshape(batch, height + 2 * PADDING, -1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width * channels), axis=(1, 2))
    position, flip = np.divmod(draws.numpy(), 2)
    crops = windows[np.arange(batch), position // SIDE, position % SIDE * channels]
    crops = crops.reshape(batch, height, width, channels)
    _flip_in_place(crops, flip.nonzero()[0])
    return torch.from_numpy(crops)


def _flip_in_place(images: np.ndarray, which: np.ndarray) -> None:
    chosen = images[which]
    flipped = np.empty_like(chosen)
    for channel in range(images.shape[3]):  # a channel at a time: twice as fast as moving whole pixels
        flipped[..., channel] = chosen[:, :, ::-1, channel]
    images[which] = flipped


def gather(x: Tensor, draws: Tensor) -> Tensor:
    batch, height, width, _ = x.shape
    position, flip = draws // 2, (draws % 2).bool()
    rows = (position // SIDE)[:, None] + torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device)
    columns = (position % SIDE)[:, None] + torch.where(flip[:, None], columns.flip(0), columns)
    image = torch.arange(batch, device=x.device)[:, None, None]
    return _pad(x)[image, rows[:, :, None], columns[:, None, :]]


def _pad(x: Tensor) -> Tensor:
    batch, height, width, channels = x.shape
    padded = x.new_zeros(batch, height + 2 * PADDING, width + 2 * PADDING, channels)
    padded[:, PADDING:-PADDING, PADDING:-PADDING] = x
    return padded
