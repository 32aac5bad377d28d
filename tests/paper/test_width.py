"""Sparse variational dropout by width, drawn from records alone."""

import json

import pytest

from tests.paper.by_hand import complete
from varnet.cli import reproduce
from varnet.launch.queue import Job
from varnet.report import read


@pytest.mark.usefixtures("here", "undrawn")
def test_error_and_sparsity_by_width(tmp_path):
    out = tmp_path / "out"
    for tag, error in (("w025", 12.0), ("w05", 8.0)):
        complete(Job(f"small/original_vgg_{tag}", 0), acc_det=100 - error)
        for seed in (0, 1):
            pruned = {"acc_det": 99 - error - seed, "sparsity": {"conv1": 50.0}, "compression": 20.0}
            complete(Job(f"small/sparse_vgg_{tag}", seed), acc_det=3.0, pruned=pruned)
    assert reproduce.main(["width", "scale=small", "run=false", f"out={out}"]) == 0
    numbers = json.loads((out / "width.numbers.json").read_text())
    assert numbers["error of the original, %"] == {"0.25": [12.0], "0.5": [8.0]}
    assert numbers["error with sparse VD, %"] == {"0.25": [13.0, 14.0], "0.5": [9.0, 10.0]}
    assert numbers["weights removed, %"] == {"0.25": [95.0, 95.0], "0.5": [95.0, 95.0]}
    found = {(row.row, row.metric): row for row in read(out / "width.json")}
    assert found["width 0.5, sparse VD", "pruned.error"].mean == 9.5
    assert found["width 0.5, sparse VD", "pruned.compression"].n == 2
    assert (out / "width.png").read_bytes() and "| error of what is left, % |" in (out / "width.md").read_text()
