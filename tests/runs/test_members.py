"""Ensembles of run folders and of one run's snapshots."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.composing import composed, tiny
from tests.conftest import no_pictures
from tests.nn.refused import assert_refused
from varnet.cli import evaluate
from varnet.cli.train import run
from varnet.errors import ConfigError
from varnet.evaluation import metrics
from varnet.evaluation.predictions import predict
from varnet.runs import members
from varnet.runs.folder import folder_of
from varnet.runs.identity import digest, identity
from varnet.runs.members import open_ensemble, snapshots
from varnet.runs.opening import open_finished
from varnet.runs.resuming import resumed
from varnet.runs.schema import check
from varnet.train import checkpoint


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict:
    """Folders: two seeds, the first with snapshots; other images; other classes."""
    torch.manual_seed(0)
    out = tmp_path_factory.mktemp("runs")
    chosen = {
        "a": tiny(out, "param=zero_mean", "schedule.epochs=3", "snapshots=[1,2]", "checkpoint_every=1"),
        "b": tiny(out, "param=zero_mean", "schedule.epochs=3", "seed=1"),
        "large": tiny(out, "dataset.size=32"),
        "toy": tiny(out, "model=toy"),
    }
    with no_pictures():
        for cfg in chosen.values():
            run(cfg)
    return {name: folder_of(cfg) for name, cfg in chosen.items()}


def test_run_folders_are_a_network(runs):
    found = open_ensemble([runs["a"], runs["b"]])
    alone = [open_finished(runs[name]).model for name in "ab"]
    data = found.data.loader("test", 20)
    members = [predict(m, data, "deterministic").log_probs for m in alone]
    ours = predict(found.model, data, "deterministic").log_probs
    torch.testing.assert_close(ours, metrics.average_probs(members))
    assert found.cfg.name.startswith("ensemble of 2: ")
    assert found.members == (str(runs["a"]), str(runs["b"]))


def test_no_network_counts_twice(runs, monkeypatch, tmp_path):
    """Whatever it is called, and wherever it was copied to. The weights at the end of a run are those of its last
    snapshot."""
    shutil.copytree(runs["a"], tmp_path / "copy")
    monkeypatch.chdir(runs["a"])
    last = runs["b"] / "snapshot_3.pt"
    last.write_bytes((runs["b"] / checkpoint.NAME).read_bytes())
    try:
        for same in (
            [runs["a"], runs["b"], runs["a"]],
            [runs["a"], Path(".")],
            [runs["b"], last],
            [runs["a"], tmp_path / "copy"],
        ):
            with pytest.raises(ConfigError, match="is the same network as"):
                open_ensemble(same)
    finally:
        last.unlink()
    assert len(open_ensemble([runs["a"], runs["a"] / "snapshot_2.pt"]).members) == 2


@pytest.mark.parametrize("name", ["snapshot_9.pt", checkpoint.NAME])
def test_what_is_no_snapshot_is_refused(runs, name):
    with pytest.raises(ConfigError, match=r"is no snapshot \(in its folder: snapshot_1.pt, snapshot_2.pt\)"):
        open_ensemble([runs["a"] / name])


@pytest.mark.parametrize(
    ("other", "words"), [("large", r"input shape \(1, 32, 32\) against \(1, 28, 28\)"), ("toy", "input shape")]
)
def test_runs_that_do_not_fit_together(runs, other, words):
    with pytest.raises(ConfigError, match=words) as caught:
        open_ensemble([runs["a"], runs[other]])
    assert str(runs[other]) in str(caught.value) and "take runs on the same data" in str(caught.value)


@pytest.mark.usefixtures("unpictured")
def test_runs_on_other_labels_do_not_fit_together(runs, tmp_path):
    cfg = tiny(tmp_path, "dataset.labels=random")
    run(cfg)
    with pytest.raises(ConfigError, match=r"dataset\.labels random against None"):
        open_ensemble([runs["a"], folder_of(cfg)])


def test_runs_with_other_classes_do_not_fit_together(runs, monkeypatch):
    def opened(folder, data_dir=None, targets=None):
        found = open_finished(folder, data_dir)
        return found if folder == runs["a"] else found._replace(data=replace(found.data, classes=20))

    monkeypatch.setattr(members, "open_finished", opened)
    with pytest.raises(ConfigError, match="classes 20 against 10"):
        open_ensemble([runs["a"], runs["b"]])


def test_snapshots_are_the_weights_of_their_epoch(runs, tmp_path):
    assert [path.name for path in snapshots(runs["a"])] == ["snapshot_1.pt", "snapshot_2.pt"]
    assert snapshots(runs["b"]) == []
    kept = checkpoint.read(runs["a"] / "snapshot_2.pt")
    assert set(kept) == {"model", "config", "epoch"} and kept["epoch"] == 2
    previous = checkpoint.read(runs["a"] / checkpoint.PREVIOUS)
    assert previous["epoch"] == 2
    assert all(torch.equal(tensor, kept["model"][key]) for key, tensor in previous["model"].items())
    model = open_ensemble([*snapshots(runs["a"]), runs["a"]]).model
    assert len(model.members) == 3
    assert torch.equal(model.members[1].dense1.sigma, kept["model"]["dense1.sigma"])
    assert not torch.equal(model.members[1].dense1.sigma, model.members[2].dense1.sigma)


def test_a_damaged_or_foreign_snapshot_is_refused(runs, tmp_path):
    damaged = runs["b"] / "snapshot_9.pt"
    damaged.write_bytes(b"nothing")
    try:
        with pytest.raises(ConfigError, match=r"cannot be read \(.*\): take another snapshot"):
            open_ensemble([damaged])
        own = runs["a"] / "snapshot_2.pt"
        for other in (runs["large"] / checkpoint.NAME, own):  # of another network, of another epoch and seed
            damaged.write_bytes(other.read_bytes())
            with pytest.raises(ConfigError, match="is not of that epoch of the run in its folder"):
                open_ensemble([damaged])
        state = checkpoint.read(own) | {"config": identity(open_finished(runs["b"]).cfg), "epoch": 9}
        torch.save(state | {"model": {}}, damaged)
        with pytest.raises(ConfigError, match="does not fit the model of its run"):
            open_ensemble([damaged])
    finally:
        damaged.unlink()


def test_snapshots_are_no_part_of_a_runs_identity(runs):
    assert digest(composed("snapshots=[1,2]")) == digest(composed())
    assert list(resumed(runs["b"], ["snapshots=[2]"]).snapshots) == [2]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("3", "use a list of epochs"),
        ("[0]", "use a list of epochs"),
        ("[1,999]", "epoch 999 comes after the last one, schedule.epochs=200; use earlier ones, or snapshots=null"),
    ],
)
def test_wrong_snapshots(value, words):
    assert_refused(lambda: check(composed(f"snapshots={value}")), "snapshots", words)


def test_an_ensemble_needs_a_run():
    with pytest.raises(ConfigError, match="name the folders of finished runs"):
        open_ensemble([])


def test_the_script_evaluates_an_ensemble(runs, tmp_path, capsys):
    few = ["eval.samples=2", "eval.draws=2", "eval.angles=[]", "eval.fractions=[0,0.9]", "threads=1"]
    before = sorted(path.name for path in runs["a"].iterdir())
    assert evaluate.main([str(runs["a"]), str(runs["b"]), *few]) == 2
    assert "out=FOLDER" in capsys.readouterr().err
    assert evaluate.main([str(runs["a"]), str(runs["b"]), *few, f"out={runs['b']}"]) == 2
    assert "is the folder of a run" in capsys.readouterr().err
    assert evaluate.main([str(runs["a"]), str(runs["b"]), *few, f"out={tmp_path}"]) == 0
    results = json.loads((tmp_path / "evaluation.json").read_text())
    assert results["run"]["name"].startswith("ensemble of 2") and "elbo" not in results
    assert "K samples" in results["modes"] and len(results["weight_samples"]["accuracy"]) == 2
    assert sorted(path.name for path in runs["a"].iterdir()) == before
    assert evaluate.main([str(runs["a"]), str(runs["toy"]), *few, f"out={tmp_path}"]) == 2
    assert "does not fit" in capsys.readouterr().err
