"""What the official binary files of CIFAR-10 and CIFAR-100 have in common."""

import numpy as np


def from_records(data: bytes, labels: int) -> tuple[np.ndarray, np.ndarray]:
    # record: the label bytes, then the red, the green and the blue plane of 32 x 32 bytes each
    records = np.frombuffer(data, np.uint8).reshape(-1, labels + 3072)
    images = records[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, records[:, :labels].squeeze(1) if labels == 1 else records[:, :labels]


def to_records(images: np.ndarray, labels: np.ndarray) -> bytes:
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), 3072)
    return np.concatenate([labels.reshape(len(labels), -1), planes], axis=1).tobytes()
