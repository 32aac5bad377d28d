"""Learning rate and weight of the KL as functions of the step."""

import math
from dataclasses import dataclass, fields

DECAYS = ("linear", "cosine", "constant")


@dataclass(frozen=True)
class Schedule:
    """Epochs are converted to steps; everything changes step by step, not epoch by epoch."""

    steps_per_epoch: int
    epochs: int
    lr: float
    decay: str = "linear"
    warmup: float = 0  # epochs
    decay_from: float = 0  # lr stays as it is up to this epoch
    beta: float = 1.0
    beta_from: float = 0  # epochs
    beta_until: float = 0
    floor: float = 0.0  # lr falls no lower

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    def lr_at(self, step: int) -> float:
        """The paper's is linear, to 0 after the last step."""
        start = self.decay_from * self.steps_per_epoch
        left = 1 - max(0, step - start) / (self.steps - start)
        factor = {"linear": left, "cosine": 0.5 * (1 + math.cos(math.pi * (1 - left))), "constant": 1.0}[self.decay]
        warm = self.warmup * self.steps_per_epoch
        return max(self.floor, self.lr * factor * (min(1.0, (step + 1) / warm) if warm else 1.0))

    def beta_at(self, step: int) -> float:
        """0 up to beta_from, then linear up to beta_until (sparse variational dropout: 5 and 20)."""
        epoch = step / self.steps_per_epoch
        if epoch >= self.beta_until:
            return self.beta
        return self.beta * max(0.0, epoch - self.beta_from) / (self.beta_until - self.beta_from)


SCHEDULED = frozenset(field.name for field in fields(Schedule))  # what a configuration may say of it
