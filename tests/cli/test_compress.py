"""python scripts/compress.py on run folders: sparse, not sparse, strange."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.composing import ROOT, tiny
from tests.conftest import no_pictures
from varnet.bench.compress import PUBLISHED, pruned, speed
from varnet.cli import compress
from varnet.cli.train import run
from varnet.compress.compacting import compact, deterministic
from varnet.compress.packed import load
from varnet.evaluation.metrics import accuracy
from varnet.evaluation.predictions import predict
from varnet.runs.folder import folder_of
from varnet.runs.opening import open_finished
from varnet.train import checkpoint

FEW = ("repeats=1", "threads=1")


def finished(tmp_path, *overrides: str) -> Path:
    cfg = tiny(tmp_path, *overrides)
    with no_pictures():
        run(cfg)
    return folder_of(cfg)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A run whose weights are then made noisy, nine of ten, as long training does."""
    folder = finished(tmp_path, "model=lenet300", "param=additive", "model.width=0.3")
    state = checkpoint.load(folder)
    for key, value in state["model"].items():
        if key.endswith("log_sigma2"):
            value[torch.rand_like(value) < 0.9] = 5.0
    checkpoint.save(folder, state)
    return folder


def refused(capsys, *arguments: object) -> str:
    assert compress.main([str(a) for a in arguments]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and message.startswith("error: ")
    return message


def test_a_run_becomes_small_files(folder, tmp_path, capsys):
    pytest.importorskip("onnx", reason="pip install 'varnet[export]'")
    before, out = sorted(p.name for p in folder.iterdir()), tmp_path / "elsewhere"
    assert compress.main([str(folder), f"out={out}", *FEW]) == 0
    shown, results = capsys.readouterr().out, json.loads((out / "compact.json").read_text())
    assert sorted(p.name for p in out.iterdir()) == ["compact.json", "compact.onnx", "compact.pt"]
    assert sorted(p.name for p in folder.iterdir()) == before, "out= keeps the run's folder as it was"
    net, given = load(out / "compact.pt"), open_finished(folder)
    found = predict(net, given.data.loader("test", 20), "deterministic")
    assert results["accuracy"]["after"] == accuracy(found.log_probs, found.y)
    assert results["compact_bytes"] == (out / "compact.pt").stat().st_size < results["original_bytes"] / 3
    assert results["compression"] == pytest.approx(10, rel=0.1) and len(results["layers"]) == 3
    assert set(results["speed"]) == {f"{key}, batch {size}" for key in ("ms", "times faster") for size in (1, 200)}
    for words in ("times smaller", "times faster", "% before", "in onnxruntime the same outputs", "dense2"):
        assert words in shown


def test_the_threshold_that_took_effect_is_written(tmp_path):
    folder = finished(tmp_path, "model=lenet300", "param=additive", "param.threshold=2")
    assert compress.main([str(folder), "threshold=10", "repeats=0", "threads=1"]) == 0
    assert json.loads((folder / "compact.json").read_text())["threshold"] == 2


def test_nothing_to_gain_is_said_and_no_error(tmp_path, capsys, monkeypatch):
    folder = finished(tmp_path, "model=lenet300", "param=deterministic")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # without the extra there is no ONNX file
    assert compress.main([str(folder), "repeats=0", "threads=1"]) == 0
    shown = capsys.readouterr().out
    assert "nothing to remove" in shown and "not written" in shown and "varnet[export]" in shown
    assert (folder / "compact.pt").exists() and not (folder / "compact.onnx").exists()
    assert json.loads((folder / "compact.json").read_text())["speed"] is None


def test_wrong_input_is_one_sentence(tmp_path, capsys):
    folder = finished(tmp_path, "param=zero_mean")
    assert "layer 'dense1' has no weight left" in refused(capsys, folder, *FEW)
    assert "is not a folder" in refused(capsys, tmp_path / "nowhere")
    assert "holds no run" in refused(capsys, tmp_path)
    assert "there is no key thresh" in refused(capsys, folder, "thresh=3")
    assert "out: it is no key=value" in refused(capsys, folder, "out")
    for value in ("threshold=high", "threads=0", "repeats=-1"):
        assert value in refused(capsys, folder, value)
    assert not list(folder.glob("compact*"))
    (tmp_path / "file").write_text("")
    layerwise = finished(tmp_path, "param=layer", "seed=1")
    assert compress.main([str(layerwise), f"out={tmp_path / 'file'}", "repeats=0"]) == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_the_networks_of_the_benchmark_have_the_published_sparsity():
    for name, sparsity in PUBLISHED.items():
        net = compact(pruned(name, PUBLISHED[name]))
        for row, share in zip(net.report.rows, sparsity, strict=True):
            error = (share * (1 - share) / row.weights) ** 0.5
            assert abs(1 - row.nonzero / row.weights - share) < 5 * error


def test_speed_is_a_ratio():
    model = pruned("lenet300", PUBLISHED["lenet300"])
    found = speed(deterministic(model), compact(model), (1, 28, 28), 1)
    assert len(found) == 4 and all(value > 0 for value in found.values())


def test_help_and_the_command_itself():
    script = str(ROOT / "scripts" / "compress.py")
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and all(key in done.stdout for key in compress.DEFAULTS)
    assert subprocess.run([sys.executable, script], capture_output=True).returncode == 2
