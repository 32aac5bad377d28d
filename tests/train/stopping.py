"""Runs that something happens to at a step of their training."""

from varnet.train import trainer


def interrupted_at(step: int, monkeypatch, how):
    """Let a run do something at a step of its training."""
    original = trainer.Trainer.train_step

    def train_step(self, x, y):
        original(self, x, y)
        if self.step == step:
            how(self)

    monkeypatch.setattr(trainer.Trainer, "train_step", train_step)


def stop(self) -> None:
    """What a SIGTERM does that comes during the step."""
    self.signal = 15
