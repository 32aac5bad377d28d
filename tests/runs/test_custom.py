"""A network of the user's own, model=custom: through every command, and never named by a folder alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.composing import ROOT, tiny
from tests.runs.own_networks import NETWORKS
from tests.runs.rewriting import rewritten
from varnet.base.importing import imported
from varnet.cli import attack, compress, evaluate, report, train
from varnet.cli.train import attempt, run
from varnet.errors import ConfigError, Stopped
from varnet.nn.layers import layers_of
from varnet.runs.build import build_model, load_data
from varnet.runs.folder import CONFIG, folder_of
from varnet.runs.members import open_ensemble
from varnet.runs.opening import open_finished
from varnet.runs.records import of_folder
from varnet.runs.resuming import resumed
from varnet.train import checkpoint

TARGET = "own_networks_of_a_test:build"
MODULE = TARGET.partition(":")[0]
NAMED = {"model.target": (TARGET,)}
MINE = ("model=custom", f"model.target={TARGET}")
FEW = ("threads=1", "eval.samples=2", "eval.draws=2", "eval.angles=[0]", "eval.fractions=[0,0.9]")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with networks of one's own in a module."""
    folder = tmp_path_factory.mktemp("own")
    (folder / f"{MODULE}.py").write_text(NETWORKS)
    return folder


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop(MODULE, None)


@pytest.fixture(scope="module")
def runs(place) -> list[Path]:
    """Two seeds of a network with nested names, flattened by view(), the first with a snapshot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "path", list(sys.path))
        learnt = ("dataset.train_size=400", "schedule.epochs=3", "schedule.lr=0.01", "schedule.beta=0")
        options = (*MINE, "model.options={hidden:5}", *learnt, "checkpoint_every=1", "out_dir=outputs")
        chosen = [tiny(Path("outputs"), *options, f"seed={seed}", "snapshots=[1]") for seed in (0, 1)]
        for cfg in chosen:
            run(cfg)
    return [(place / folder_of(cfg)) for cfg in chosen]


def model_of(*overrides: str) -> torch.nn.Module:
    cfg = tiny(Path("outputs"), "model=custom", *overrides)
    return build_model(cfg, load_data(cfg))


# ---- building


def test_all_plain_layers_become_variational_unless_some_are_named():
    assert list(layers_of(model_of(*MINE[1:]))) == ["features.0", "features.3", "head"]
    model = model_of(*MINE[1:], "param.layers=[features]", "model.options={hidden:3}", "param=additive")
    assert list(layers_of(model)) == ["features.0", "features.3"] and model.head.in_features == 3 * 36
    assert {layer.param.name for layer in layers_of(model).values()} == {"additive"}
    assert list(layers_of(model_of(*MINE[1:], "param.layers=[features.*]", "prior=gaussian"))) == [
        "features.0", "features.3",
    ]  # fmt: skip
    torch.testing.assert_close(layers_of(model_of(*MINE[1:], "param.log_alpha=-2"))["head"].log_alpha.item(), -2.0)


def test_the_trial_leaves_no_trace():
    """The weights are those of the seed and the function; averages and noise go on as if nothing had been tried."""
    torch.manual_seed(3)
    plain, after = imported(TARGET)((1, 28, 28), 10), torch.rand(3)
    torch.manual_seed(3)
    model = model_of(*MINE[1:], "param=deterministic")
    assert torch.equal(torch.rand(3), after)
    assert model.training and all(torch.equal(v, plain.state_dict()[k]) for k, v in model.state_dict().items())


def test_networks_that_are_made_in_other_ways():
    assert list(layers_of(model_of(f"model.target={MODULE}:Net"))) == ["features.0", "features.3", "head"]
    assert list(layers_of(model_of(f"model.target={MODULE}:lazy"))) == ["1", "3"]
    assert list(layers_of(model_of(f"model.target={MODULE}:lazy", "param.layers=3"))) == ["3"]
    assert list(layers_of(model_of(f"model.target={MODULE}:lazy", "param.layers=[1,'3']"))) == ["1", "3"]
    assert list(layers_of(model_of(f"model.target={MODULE}:one_layer", "dataset=toy"))) == ["0"]
    assert not layers_of(model_of(f"model.target={MODULE}:unknown", "param=deterministic"))


def test_dropout_is_the_networks_own():
    cfg = tiny(Path("outputs"), *MINE, "param=dropout")
    model = build_model(cfg, load_data(cfg))
    assert not layers_of(model) and model.drop.p == 0.2 and cfg.param.l2 > 0


WRONG = {
    "target of nothing": ("model.target", [], "use the import path of your function, package.module:function"),
    "no path": ("model.target", ["nonsense"], "use package.module:function"),
    "no module": ("model.target", ["own_nothing:build"], "No module named 'own_nothing'"),
    "no function": ("model.target", [f"{MODULE}:nothing"], "has no attribute 'nothing'"),
    "not callable": ("model.target", [f"{MODULE}:five"], "is not a function (its type is int)"),
    "no nn.Module": ("model.target", [f"{MODULE}:no_module"], "returns int, which is no nn.Module: return the network"),
    "nothing to learn": ("model.target", [f"{MODULE}:empty"], "has nothing to learn: give it layers with weights"),
    "wrong shape": ("model.target", [f"{MODULE}:wrong_shape"], "has shape (2, 11): return logits of shape (2, 10)"),
    "two outputs": ("model.target", [f"{MODULE}:two_outputs"], "has type tuple: return logits of shape (2, 10)"),
    "raises": ("model.target", [f"{MODULE}:fails"], f"raised KeyError: 'nothing' ({MODULE}.py, line "),
    "other images": ("model.target", [f"{MODULE}:for_other_images"], "fails on inputs of shape (2, 1, 28, 28), Ru"),
    "variational": ("model.target", [f"{MODULE}:the_same_twice"], "variational already: make a new one of plain"),
    "weight norm": ("model.target", [f"{MODULE}:normed"], "computes its weight (weight norm, pruning, a parametri"),
    "no plain layer": ("model.target", [f"{MODULE}:unknown"], "change it, or use param=deterministic"),
    "no dropout": ("model.target", [f"{MODULE}:sequential", "param=dropout"], "without nn.Dropout, the noise of"),
    "options": ("model.options", [TARGET, "model.options=5"], "use its arguments, e.g. {hidden: 100}"),
    "no such option": (
        "model.options", [f"{MODULE}:sequential", "model.options={hiden:5}"], "unexpected keyword argument 'hiden'",
    ),
    "option refused inside": ("model.target", [TARGET, "model.options={width:5}"], "change model.options={'width': 5}"),
    "no such layer": ("param.layers", [TARGET, "param.layers=[neck]"], "choose from: features.0, features.3, head"),
    "a name that is a number": ("param.layers", [TARGET, "param.layers=[2.10]"], "2.1 is read as a number: put the"),
    "batch of one": ("schedule.batch_size", [TARGET, "schedule.batch_size=1"], "is too small for batch norm"),
    "channels-last": ("model.target", [TARGET, "channels_last=true"], "view size is not compatible"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_every_error_is_one_sentence(name, tmp_path):
    key, overrides, words = WRONG[name]
    target = [f"model.target={overrides[0]}"] if overrides else []
    with pytest.raises(Stopped) as caught:
        attempt(tiny(tmp_path, "model=custom", *target, *overrides[1:]))
    assert caught.value.code == 2 and caught.value.__cause__.key == key
    message = str(caught.value)
    assert message.startswith(f"{key}") and words in message and "\n" not in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model.target=a:b"], "model.target=a:b: only model=custom has the key model.target; give that, too"),
        (["model=custom", "model.width=2"], "there is no key model.width"),
        (["model=custom", "+model.width=2"], "model.width=2 is not known: choose from name, target, options"),
        (["+model.target=a:b"], "model.target=a:b is not known: choose from name, width"),
    ],
)
def test_keys_are_those_of_the_choice(arguments, words, capsys):
    with pytest.raises(SystemExit) as caught:
        train.command_line(arguments)
    assert caught.value.code == 2 and words in capsys.readouterr().err


# ---- through all commands


def test_what_a_run_of_it_writes(runs):
    metrics = json.loads((runs[0] / "metrics.json").read_text())
    assert set(metrics["log_alpha"]) == {"features.0", "features.3", "head"}
    saved = OmegaConf.load(runs[0] / CONFIG).model
    assert saved == {"name": "custom", "target": TARGET, "options": {"hidden": 5}}
    assert (runs[0] / "phase_transition.png").stat().st_size > 10_000
    events = EventAccumulator(str(runs[0])).Reload().Tags()
    assert {"log_alpha/features.0", "log_alpha/head", "kl/features.3"} <= set(events["scalars"])
    assert of_folder(runs[0])["config"]["model"]["target"] == TARGET  # which imports nothing


def test_it_goes_on_as_if_it_had_not_been_stopped(runs, tmp_path):
    folder = tmp_path / "run" / runs[0].name
    shutil.copytree(runs[0], folder)
    (folder / checkpoint.PREVIOUS).replace(folder / checkpoint.NAME)
    (folder / "metrics.json").unlink()
    cfg = resumed(folder, [f"model.target={TARGET}", "model=custom", "model.options={hidden: 5}"])
    attempt(cfg, folder)
    whole, again = (checkpoint.read(f / checkpoint.NAME)["model"] for f in (runs[0], folder))
    assert all(torch.equal(value, again[key]) for key, value in whole.items())
    with pytest.raises(ConfigError, match=r"model.options=.* does not fit resume="):
        resumed(folder, [f"model.target={TARGET}", "model.options={hidden: 6}"])


def test_another_run_starts_from_its_weights(runs, tmp_path):
    hidden = "model.options={hidden:5}"
    cfg = tiny(tmp_path, *MINE, hidden, f"init_from={runs[0]}", "param=additive", "schedule.lr=1e-9")
    run(cfg)
    mine, source = (checkpoint.read(f / checkpoint.NAME)["model"] for f in (folder_of(cfg), runs[0]))
    for name in ("features.0.mu", "features.1.running_mean", "head.bias"):
        torch.testing.assert_close(mine[name], source[name], atol=0.2 if "running" in name else 1e-6, rtol=0)
    with pytest.raises(Stopped, match=r"init_from=.* does not fit the model: .*; use the same model") as caught:
        attempt(tiny(tmp_path, f"init_from={runs[0]}"))
    assert caught.value.__cause__.key == "init_from"


def test_it_is_evaluated_attacked_and_reported(runs, tmp_path, capsys):
    again = f"model.target={TARGET}"
    assert evaluate.main([str(runs[0]), again, *FEW]) == 0
    results = json.loads((runs[0] / "evaluation.json").read_text())
    assert len(results["weight_samples"]["accuracy"]) == 2 and "zero-mean, K samples" in results["modes"]
    few = ["iterations=2", "samples=2", "eot=3", "images=2", "candidates=20", "threads=1", f"out={tmp_path / 'attack'}"]
    code = attack.main([*map(str, runs), "ensemble=each", again, *few])
    assert (code, capsys.readouterr().err) == (0, "")
    assert report.main(["outputs", "--out", str(tmp_path / "report")]) in (None, 0)
    assert "| 2 |" in (tmp_path / "report" / "table.md").read_text()


def test_ensembles_and_snapshots_of_it(runs):
    both = open_ensemble([runs[0], runs[1], runs[0] / "snapshot_1.pt"], targets=NAMED)
    assert len(both.members) == 3 and len(layers_of(both.model)) == 9
    members = [open_finished(folder, targets=NAMED).model for folder in runs]
    assert not torch.equal(members[0].head.mu, members[1].head.mu)


def test_a_sequence_of_layers_is_compressed_and_another_network_refused(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compress, "onnx", lambda *_: "")  # which takes seconds
    cfg = tiny(tmp_path, "model=custom", f"model.target={MODULE}:sequential", "param=additive", "threads=1")
    run(cfg)
    again = f"model.target={MODULE}:sequential"
    assert compress.main([str(folder_of(cfg)), again, "repeats=0"]) == 0
    assert (folder_of(cfg) / "compact.pt").exists()
    assert compress.main([str(runs[0]), f"model.target={TARGET}", "repeats=0"]) == 2
    assert "a Net cannot be made compact: give an nn.Sequential" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweep_by_joblib(place, tmp_path):
    """Its processes find the module in the current folder, too."""
    options = [
        *MINE, "model.options={hidden:3},{hidden:4}", "dataset=digits", "dataset.train_size=40", "dataset.test_size=20",
        "schedule.epochs=1", "schedule.batch_size=20", f"out_dir={tmp_path}",
    ]  # fmt: skip
    command = [sys.executable, str(ROOT / "train.py"), "-m", *options, "hydra/launcher=joblib", "threads=1"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 runs are finished" in done.stdout


# ---- what a stranger's folder may not do


@pytest.fixture(params=["model.target", "dataset.target"])
def stranger(request, runs, tmp_path, monkeypatch) -> tuple[Path, str, Path]:
    """(folder of a run that names code of its maker, key=value of that name, what this code writes when imported)"""
    folder, wrote = tmp_path / "runs" / "of a stranger", tmp_path / "imported"
    shutil.copytree(runs[0], folder)
    (tmp_path / "own_evil.py").write_text(f"open({str(wrote)!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    cfg = OmegaConf.load(folder / CONFIG)
    OmegaConf.update(cfg, "model.target", None)
    OmegaConf.update(cfg, request.param, "own_evil:build", force_add=True)
    OmegaConf.update(cfg, f"{request.param.partition('.')[0]}.name", "custom")
    rewritten(folder, cfg)
    yield folder, f"{request.param}=own_evil:build", wrote
    assert not wrote.exists(), "code that only a folder named was imported"
    with pytest.raises(ConfigError, match="has no attribute"):
        imported("own_evil:build")
    assert wrote.exists()  # so that the line above could have failed
    sys.modules.pop("own_evil")


def called(command: str, folder: Path) -> int:
    if command == "resume":
        with pytest.raises(SystemExit) as caught:
            train.command_line([f"resume={folder}"])
        return caught.value.code
    places = {
        "ensemble": [str(folder), str(folder / "snapshot_1.pt"), f"out={folder.parent}"],
        "snapshot": [str(folder / "snapshot_1.pt"), f"out={folder.parent}"],
    }.get(command, [str(folder)])
    return {"attack": attack, "compress": compress}.get(command, evaluate).main(places)


@pytest.mark.parametrize("command", ["resume", "evaluate", "ensemble", "snapshot", "attack", "compress"])
def test_a_folder_alone_names_no_code(command, stranger, capsys):
    folder, named, _ = stranger
    assert called(command, folder) == 2
    message = capsys.readouterr().err
    assert f"takes code from {named}" in message and message.endswith(f"give {named} on the command line, too\n")
    assert message.count("\n") == 1


def test_another_path_on_the_command_line_is_not_its_own(stranger, capsys):
    folder, named, _ = stranger
    other = f"{named.partition('=')[0]}={TARGET}"
    assert evaluate.main([str(folder), other]) == 2 and named in capsys.readouterr().err
    with pytest.raises(ConfigError, match="takes code from"):
        resumed(folder, [other])


def test_reports_and_initial_weights_import_nothing(stranger, tmp_path):
    folder, _, _ = stranger
    assert report.main([str(folder.parent), "--out", str(tmp_path / "report")]) in (None, 0)
    of_folder(folder)
    with pytest.raises(Stopped, match=r"init_from=.* does not fit the model"):
        attempt(tiny(tmp_path / "new", f"init_from={folder}"))


def test_a_path_that_is_interpolated_is_refused(runs, tmp_path):
    """It could be resolved to something else than what was compared."""
    folder = tmp_path / runs[0].name
    shutil.copytree(runs[0], folder)
    cfg = OmegaConf.load(folder / CONFIG)
    cfg.model.target = f"{MODULE}:${{model.options.which}}"
    OmegaConf.update(cfg, "model.options.which", "build", force_add=True)
    OmegaConf.save(cfg, folder / CONFIG)
    (folder / "checksums.json").unlink()
    with pytest.raises(ConfigError, match="has an interpolation"):
        resumed(folder, [f"model.target={TARGET}"])
