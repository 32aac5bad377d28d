"""python scripts/evaluate.py on run folders: whole, incomplete, strange."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from tests.composing import ROOT, tiny
from tests.nn.refused import assert_refused
from tests.runs.rewriting import rewritten
from varnet.cli import evaluate
from varnet.cli.train import run
from varnet.report.analysis import settings
from varnet.runs.folder import folder_of
from varnet.runs.opening import open_finished
from varnet.train import checkpoint

pytestmark = pytest.mark.usefixtures("unpictured")
FEW = [
    "eval.samples=3",
    "eval.draws=3",
    "eval.elbo_samples=2",
    "eval.angles=[0,90]",
    "eval.fractions=[0,0.9]",
    "threads=1",
]


def refused(capsys, *arguments: str) -> str:
    assert evaluate.main([str(a) for a in arguments]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and message.startswith("error: ")
    return message


def test_everything_is_measured(folder, capsys):
    assert evaluate.main([str(folder), *FEW, "eval.layers=[dense1]"]) == 0
    results = json.loads((folder / "evaluation.json").read_text())
    assert set(results) >= {"modes", "elbo", "weight_samples", "pruning", "rotation", "reliability", "run"}
    assert list(results["modes"]) == [
        "deterministic", "one sample", "K samples", "zero-mean, one sample", "zero-mean, K samples",
        "permuted sigma, one sample", "permuted sigma, K samples",
    ]  # fmt: skip
    assert len(results["weight_samples"]["accuracy"]) == 3 and results["elbo"]["elbo_samples"] == 2
    assert [r["fraction"] for r in results["pruning"]] == [0, 0.9]
    shown = capsys.readouterr().out
    assert "3 samples" in shown and "evaluation.json" in shown and "ELBO" in shown
    for name in ("reliability", "weight_samples", "pruning", "rotation"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_numbers_are_those_of_the_run(folder):
    metrics = json.loads((folder / "metrics.json").read_text())
    assert evaluate.main([str(folder), "eval.angles=[]", "eval.fractions=[]", "eval.draws=0", "threads=1"]) == 0
    results = json.loads((folder / "evaluation.json").read_text())
    assert results["modes"]["deterministic"]["accuracy"] == metrics["acc_det"]
    assert results["modes"]["deterministic"]["nll"] == pytest.approx(metrics["nll_det"], rel=1e-5)
    assert results["elbo"]["kl"] == pytest.approx(metrics["kl"])
    assert results["elbo"]["data_term"] == pytest.approx(metrics["data_term"])  # the same seed
    assert "rotation" not in results and "pruning" not in results and "weight_samples" not in results


@pytest.mark.parametrize("param", ["deterministic", "zero_mean"])
def test_modes_without_meaning_are_left_out(tmp_path, param):
    cfg = tiny(tmp_path, f"param={param}")
    run(cfg)
    assert evaluate.main([str(folder_of(cfg)), *FEW]) == 0
    modes = json.loads((folder_of(cfg) / "evaluation.json").read_text())["modes"]
    assert ("one sample" in modes) == ("permuted sigma, K samples" in modes) == (param == "zero_mean")
    assert "zero-mean, K samples" not in modes


def test_batch_norm_by_batch_stands_beside_the_modes(folder, tmp_path):
    few = [*FEW, "eval.batch_statistics=true", "eval.angles=[]", "eval.fractions=[]", f"out={tmp_path}"]
    assert evaluate.main([str(folder), *few]) == 0
    results = json.loads((tmp_path / "evaluation.json").read_text())
    modes = results["modes"]
    assert results["elbo, batch norm by batch"]["kl"] == results["elbo"]["kl"]
    assert results["elbo, batch norm by batch"]["data_term"] != results["elbo"]["data_term"]
    assert modes["deterministic, batch norm by batch"]["nll"] != modes["deterministic"]["nll"]
    assert [n for n in modes if "by batch" in n] == [f"{n}, batch norm by batch" for n in modes if "by batch" not in n]


def test_outliers_of_another_dataset(folder, tmp_path):
    out = tmp_path / "elsewhere"
    few = [*FEW, "eval.angles=[]", "eval.fractions=[]"]
    before = sorted(p.name for p in folder.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("varnet.report.analysis.load", lambda name, data_dir=None: open_finished(folder).data)
        assert evaluate.main([str(folder), *few, "eval.ood=mnist", f"out={out}"]) == 0
    found = json.loads((out / "evaluation.json").read_text())["ood"]
    assert found["auroc_entropy"] == pytest.approx(0.5, abs=0.05) and (out / "ood.png").exists()
    assert sorted(p.name for p in folder.iterdir()) == before, "out= keeps the run's folder as it was"


def test_toy_points_have_no_rotation(tmp_path):
    cfg = tiny(tmp_path, "model=toy")
    run(cfg)
    assert evaluate.main([str(folder_of(cfg)), *FEW]) == 0
    assert "rotation" not in json.loads((folder_of(cfg) / "evaluation.json").read_text())


def test_incomplete_and_strange_folders(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "is not a folder" in refused(capsys, tmp_path / "nowhere")
    assert "holds no run" in refused(capsys, tmp_path)
    metrics = (folder / "metrics.json").read_text()
    (folder / "metrics.json").unlink()
    assert f"resume={folder}" in refused(capsys, folder)
    (folder / "metrics.json").write_text(metrics)
    folder = folder.rename(tmp_path / "moved")
    cfg = OmegaConf.load(folder / ".hydra" / "config.yaml")
    for change, words in (
        ({"eval": {"samples": None}}, "eval.samples=null"),
        ({"model": {"width": 0.1}}, "does not fit"),
    ):
        rewritten(folder, OmegaConf.merge(cfg, change))
        message = refused(capsys, folder)
        assert "another version of varnet" in message and words in message
    rewritten(folder, cfg)
    for path in (folder / checkpoint.NAME, folder / checkpoint.PREVIOUS):
        path.write_bytes(b"not a checkpoint")
    assert "cannot be read" in refused(capsys, folder)
    torch.save({"model": [1], "config": {}}, folder / checkpoint.NAME)
    assert "not a checkpoint of varnet" in refused(capsys, folder)
    (folder / checkpoint.PREVIOUS).unlink()
    torch.save({"model": {"x": Harmful()}, "config": {}}, folder / checkpoint.NAME)
    message = refused(capsys, folder)
    assert "it holds more than numbers, which might do harm" in message and "weights_only" not in message
    assert not (tmp_path / "harm").exists() and not (folder / "evaluation.json").exists()


class Harmful:
    def __reduce__(self):
        return (Path.touch, (Path("harm"),))


@pytest.mark.parametrize(
    ("override", "key", "remedy"),
    [
        ("eval.sample=3", None, "there is no key eval.sample; use key=value with one of"),
        ("samples", None, "use key=value with one of"),
        ("eval=3", None, "there is no key eval; use key=value with one of"),
        ("eval.samples=0", "eval.samples", "use a whole number from 1"),
        ("eval.fractions=[2]", "eval.fractions", "use "),
        ("eval.angles=90", "eval.angles", "use "),
        ("eval.prune_by=size", "eval.prune_by", "use one of"),
        ("eval.ood=imagenet", "eval.ood", "use one of"),
        ("eval.layers=3", "eval.layers", "use all, or a list of layers"),
        ("eval.layers=null", "eval.layers", "use all, or a list of layers"),
        ("eval.layers=[1]", "eval.layers", "use all, or a list of layers"),
    ],
)
def test_wrong_options(override, key, remedy):
    assert_refused(lambda: settings(OmegaConf.load(evaluate.DEFAULTS), [override]), key, remedy)


def test_options_that_only_the_run_can_refuse(folder, capsys):
    assert "eval.layers: there is no layer 'conv9'" in refused(capsys, folder, *FEW, "eval.layers=[conv9]")
    assert "own dataset" in refused(capsys, folder, *FEW, "eval.ood=digits")
    message = refused(capsys, folder, *FEW, "eval.prune_by=snr")
    assert "eval.prune_by=snr is invalid" in message and "use sigma" in message
    assert not (folder / "evaluation.json").exists()


def test_numbers_of_other_runs_are_not_replaced(folder, capsys, tmp_path, monkeypatch):
    cfg = tiny(tmp_path, "seed=1")
    run(cfg)
    few = [*FEW, "eval.fractions=[]", "eval.angles=[]", "eval.draws=0"]
    place = f"out={tmp_path / 'out'}"
    assert evaluate.main([str(folder), str(folder_of(cfg)), *few, place]) == 0
    before = (tmp_path / "out" / "evaluation.json").read_bytes()
    assert "evaluation.json is of other runs: use out=FOLDER" in refused(capsys, folder, *few, place)
    assert (tmp_path / "out" / "evaluation.json").read_bytes() == before
    monkeypatch.chdir(folder.parent)
    again = [folder_of(cfg).name, folder.name, *few, "eval.samples=2", place]
    assert evaluate.main(again) == 0, "the same runs by other names"


def test_a_network_of_nan_is_refused(folder, capsys):
    state = checkpoint.read(folder / checkpoint.NAME)
    state["model"] = {
        k: torch.full_like(v, torch.nan) if v.is_floating_point() else v for k, v in state["model"].items()
    }
    torch.save(state, folder / checkpoint.NAME)
    assert "predicts NaN: train it anew" in refused(capsys, folder, *FEW)
    assert not (folder / "evaluation.json").exists()


def test_help_and_the_command_itself():
    script = str(ROOT / "scripts" / "evaluate.py")
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "eval.samples" in done.stdout and "draws:" in done.stdout
    assert subprocess.run([sys.executable, script], capture_output=True).returncode == 2
