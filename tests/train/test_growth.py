"""A run takes as much memory and time for its last epoch as for its first: nothing of an epoch stays in the process."""

import gc

import pytest

from tests.composing import tiny
from varnet.cli.train import run
from varnet.evaluation.sources import sources
from varnet.train.history import Copy, rows
from varnet.train.trainer import Trainer

FAST = ("model=lenet300", "model.width=0.02", "param=additive", "checkpoint_every=2")


@pytest.mark.usefixtures("unpictured")
def test_no_object_of_an_epoch_stays(tmp_path, monkeypatch):
    counts, original = {}, Trainer._end_epoch

    def end_epoch(self, *arguments):
        original(self, *arguments)
        if self.epoch in (4, 8):
            gc.collect()
            counts[self.epoch] = (len(gc.get_objects()), *map(len, sources()))

    monkeypatch.setattr(Trainer, "_end_epoch", end_epoch)
    run(tiny(tmp_path, *FAST, "schedule.epochs=9"))
    objects, *kept = counts[8]
    assert objects - counts[4][0] < 20 and kept == list(counts[4][1:])


def test_the_copy_of_a_long_history_is_small_and_whole():
    """At the end of a run of 2,000 epochs a line costs what it costs at the beginning."""
    copy, text = Copy(), b""
    for epoch in range(1, 2001):
        line = b'{"epoch": %d, "elbo": -%d.%d, "kl_by_layer": {"dense1": %d.5}}\n' % (
            epoch,
            10**9 // epoch,
            epoch,
            epoch,
        )
        copy.add(line)
        text += line
    assert copy.text() == text and copy.size == len(text) and len(copy.packed()) < len(text) / 2
    assert len(rows(copy.text())) == 2000 and len(copy._parts) < 20
