"""python scripts/attack.py on run folders."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from tests.composing import tiny
from tests.conftest import no_pictures
from tests.runs.rewriting import rewritten
from varnet.attack import robustness
from varnet.attack.gradient import Attack, Pixels
from varnet.attack.robustness import experiment
from varnet.cli import attack as script
from varnet.cli.train import run
from varnet.evaluation.ensemble import Ensemble
from varnet.runs import networks as kinship
from varnet.runs.folder import folder_of
from varnet.runs.opening import open_finished
from varnet.train import checkpoint

FEW = ["iterations=3", "step=20", "images=6", "threads=1"]


def trained(folder: Path, *overrides: str) -> Path:
    """Long enough to have some images right."""
    sizes = ("dataset.train_size=600", "dataset.test_size=40", "schedule.epochs=3", "eval.every=9", "model.width=0.5")
    cfg = tiny(folder, "schedule.lr=0.01", *sizes, *overrides)
    with no_pictures():
        run(cfg)
    return folder_of(cfg)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    choices = {
        "variance 0": ["param=zero_mean", "seed=0", "snapshots=[2]"],
        "variance 1": ["param=zero_mean", "seed=1", "snapshots=[2]"],
        "deterministic": ["param=deterministic"],
        "longer": ["param=deterministic", "schedule.epochs=4"],
    }
    return {name: trained(folder, *overrides) for name, overrides in choices.items()}


def numbers(folder: Path) -> dict:
    return json.loads((folder / "attack.json").read_text())


def refused(capsys, *arguments: object) -> str:
    assert script.main([str(a) for a in arguments]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and message.startswith("error: ")
    return message


def test_one_run(runs, capsys, monkeypatch):
    folder = runs["deterministic"]
    assert script.main([str(folder), *FEW]) == 0
    found = numbers(folder)
    assert [(line["attack"], line["n"], len(line["rate"])) for line in found["lines"]] == [("white box", 1, 4)]
    one = open_finished(folder)
    data = one.data
    model = Pixels(one.model, data.mean, data.std)
    wanted = experiment({"x": model}, data.test_x, data.test_y, 10, Attack(iterations=3, step=20.0), images=6)
    assert found["lines"][0]["rate"] == wanted[0]["rate"]
    assert (found["dataset"], found["options"]["step"], found["options"]["candidates"]) == ("digits", 20, 500)
    shown = capsys.readouterr().out
    assert "successful attacks" in shown and "3 steps" in shown and "attack.json" in shown
    assert (folder / "attack.png").read_bytes().startswith(b"\x89PNG")
    assert script.main([str(folder), *FEW, "device=cpu"]) == 0, "the same attack again"
    assert "attack.json is of another attack: use out=FOLDER" in refused(capsys, folder, *FEW, "step=10")
    assert numbers(folder) == found
    monkeypatch.chdir(folder.parent)
    assert script.main([folder.name, *FEW]) == 0, "by another name"


def test_a_network_of_nan_is_not_robust(runs, tmp_path, capsys):
    folder = shutil.copytree(runs["deterministic"], tmp_path / "nan")
    state = checkpoint.read(folder / checkpoint.NAME)
    state["model"] = {
        k: torch.full_like(v, torch.nan) if v.is_floating_point() else v for k, v in state["model"].items()
    }
    torch.save(state, folder / checkpoint.NAME)
    assert "predicts NaN: train it anew" in refused(capsys, folder, *FEW, f"out={tmp_path / 'out'}")
    assert not (tmp_path / "out" / "attack.json").exists()


def test_several_runs_their_ensemble_and_the_two_cautions(runs, tmp_path, capsys):
    places = [str(runs[name]) for name in ("deterministic", "variance 0", "variance 1")]
    assert script.main([f"out={tmp_path / 'out'}", *places, *FEW, "samples=2", "eot=3", "ensemble=true"]) == 0
    found = numbers(tmp_path / "out")
    plain, noisy = "digits_lenet5_deterministic_loguniform", "digits_lenet5_zero_mean_loguniform"
    assert [(line["network"], line["attack"], line["n"]) for line in found["lines"]] == [
        (plain, "white box", 1),
        (noisy, "white box", 2),
        ("ensemble of 3", "white box", 1),
        (noisy, "EOT, 3 samples", 1),
        ("ensemble of 3", "EOT, 3 samples", 1),
        (noisy, f"transfer from {plain}", 1),
        ("ensemble of 3", f"transfer from {plain}, a member", 1),
    ]
    assert [found["runs"][place]["seed"] for place in places] == [0, 0, 1]
    assert "caution" not in capsys.readouterr().out and found["cautions"] == []
    shown = {  # of the source's seed, of another one
        seed: script.main([places[0], places[1 + seed], *FEW, "samples=2", "eot=0", f"out={tmp_path / str(seed)}"])
        or numbers(tmp_path / str(seed))
        for seed in (0, 1)
    }
    assert f"{noisy} began with the weights of {plain}" in shown[0]["cautions"][0] and not shown[1]["cautions"]
    assert "caution: " in capsys.readouterr().out
    networks = kinship.grouped({Path(place): open_finished(Path(place)) for place in places})
    assert kinship.seeds_of(networks) == {plain: [0], noisy: [0, 1]}
    transferred = next(line for line in found["lines"] if line["attack"] == f"transfer from {plain}")
    assert transferred["rate"] == shown[1]["lines"][-1]["rate"], "the images were shown to the run of another seed"
    assert {line["images"] for line in found["lines"]} == {6}


def test_fewer_images_than_asked_for_are_told(runs, tmp_path, capsys):
    place = str(runs["deterministic"])
    assert script.main([place, "iterations=1", "threads=1", "images=6", "candidates=5", f"out={tmp_path}"]) == 0
    found = numbers(tmp_path)
    caution = f"only {found['lines'][0]['images']} of the first test images are right in every network (images=6, "
    assert found["cautions"][0].startswith(caution) and f"caution: {caution}" in capsys.readouterr().out


def test_the_seeds_of_each_network_as_an_ensemble(runs, tmp_path):
    places = [str(runs[name]) for name in ("deterministic", "variance 0", "variance 1")]
    off = ["transfer=false", "eot=0", "samples=2", f"out={tmp_path}"]
    assert script.main([*places, *FEW, *off, "ensemble=each"]) == 0
    plain, noisy, both = numbers(tmp_path)["lines"]
    assert (plain["n"], noisy["n"], both["n"]) == (1, 2, 1) and both["network"] == f"{noisy['network']}, ensemble of 2"
    data = open_finished(runs["variance 0"]).data
    models = [Pixels(open_finished(runs[f"variance {seed}"]).model, data.mean, data.std) for seed in (0, 1)]
    alone = Pixels(open_finished(runs["deterministic"]).model, data.mean, data.std)
    networks = {plain["network"]: alone, noisy["network"]: models, both["network"]: Ensemble(models)}  # noise by name
    wanted = experiment(networks, data.test_x, data.test_y, 10, Attack(iterations=3, step=20.0, samples=2), images=6)
    assert [both["rate"], noisy["rate"]] == [wanted[2]["rate"], wanted[1]["rate"]]


def test_unlike_runs_of_one_name_are_kept_apart(runs, tmp_path):
    pair = [runs["variance 0"] / "snapshot_2.pt", runs["variance 1"] / "snapshot_2.pt"]
    places = [runs["deterministic"], runs["longer"], runs["variance 0"], *pair]
    off = ["transfer=false", "eot=0", "images=1", "iterations=1", "threads=1"]
    assert script.main([*map(str, places), *off, f"out={tmp_path}"]) == 0
    lines = numbers(tmp_path)["lines"]
    assert [line["n"] for line in lines] == [1, 1, 1, 2] and len({line["network"] for line in lines}) == 4
    names = [line["network"] for line in lines]
    assert [name.partition(" (")[2] for name in names] == [
        "schedule.epochs=3)", "schedule.epochs=4)", "snapshot=null)", "snapshot=snapshot_2.pt)",
    ]  # fmt: skip


def test_folders_that_were_moved(runs, capsys, tmp_path):
    """Neither names nor folders tell these apart, and they differ in much: their whole paths are shown."""
    for name, kind, lr in (("deterministic", "a", 0.01), ("variance 0", "b", 0.02)):
        place = tmp_path / kind / "net" / "final"
        shutil.copytree(runs[name], place)
        cfg = OmegaConf.load(place / ".hydra/config.yaml")
        cfg.name, cfg.schedule.lr = "same", lr
        rewritten(place, cfg)
    one, other = (tmp_path / kind / "net" / "final" for kind in "ab")
    opened = {place: open_finished(place) for place in (one, other)}
    assert list(kinship.grouped(opened)) == [f"same ({one})", f"same ({other})"]
    copy = shutil.copytree(one, tmp_path / "copy")
    assert "is the same network as" in refused(capsys, one, copy, f"out={tmp_path / 'out'}")


def test_a_bound(runs, tmp_path):
    bound = ["method=pgd_linf", "epsilon=0", "targeted=false", f"out={tmp_path}"]
    assert script.main([str(runs["deterministic"]), *FEW, *bound]) == 0
    assert numbers(tmp_path)["lines"][0]["rate"] == [0, 0, 0, 0], "no step is allowed"


@pytest.mark.parametrize(
    ("arguments", "named", "remedy"),
    [
        (["method=cw"], "method=cw", "use one of fast_sign, pgd_linf, pgd_l2"),
        (["method=pgd_l2"], "epsilon=null", "give the bound, in pixels of 0..255"),
        (["steps=3"], "steps=3", "use key=value with one of"),
        (["images=0"], "images=0", "use a whole number from 1"),
        (["transfer=maybe"], "transfer=maybe", "use one of true, false"),
        (["eot=10"], "eot=10", "samples=10"),
        (["device=tpu"], "device=tpu", "choose one of auto, cpu, cuda"),
        (["data_dir=null", "iterations=x"], "iterations=x", "use a whole number from 0"),
        (["data_dir=5"], "data_dir=5", "use the name of a folder (a number as ./5)"),
        (["method={"], "method={", "close its brackets"),
        (["ensemble=true"], "ensemble=true", "needs several runs"),
        (["ensemble=each"], "ensemble=each", "needs several seeds of a network"),
        (["ensemble=all"], "ensemble=all", "use one of true, false, each"),
        (["--fast"], "--fast", "is not known"),
    ],
)
def test_wrong_options(runs, capsys, arguments, named, remedy, tmp_path):
    message = refused(capsys, runs["deterministic"], *arguments, f"out={tmp_path / 'out'}")
    assert message.startswith(f"error: {named}") and remedy in message
    assert not (tmp_path / "out").exists()


def test_wrong_places(runs, capsys, tmp_path):
    folder = runs["deterministic"]
    assert "several runs have no folder for these numbers" in refused(capsys, folder, runs["longer"])
    assert "is the folder of a run" in refused(capsys, folder, runs["longer"], f"out={folder}")
    snapshot = runs["variance 0"] / "snapshot_2.pt"
    assert "a snapshot has no folder for these numbers" in refused(capsys, snapshot)
    assert "is the same network as" in refused(capsys, folder, folder, f"out={tmp_path}")
    assert "nowhere" in refused(capsys, "nowhere")
    points = tiny(tmp_path, "model=toy")
    run(points)
    assert "dataset=toy has no images" in refused(capsys, folder_of(points), *FEW)
    assert "does not fit" in refused(capsys, folder, folder_of(points), *FEW, f"out={tmp_path / 'out'}")
    assert "use the name of a folder (a number as ./5)" in refused(capsys, folder, "out=5")
    assert "comes without a run" in refused(capsys, f"out={tmp_path / 'out'}")
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_found_before_the_attack(runs, monkeypatch, capsys):
    monkeypatch.setattr(robustness, "experiment", lambda *_: pytest.fail("attacked for nothing"))
    assert script.main([str(runs["deterministic"]), *FEW, "out=/dev/null/x"]) == 4
    assert capsys.readouterr().err.endswith("use out=FOLDER for another place\n")


def test_help(capsys):
    assert script.main(["--help"]) == 0 and "iterations: 40" in capsys.readouterr().out
    assert script.main([]) == 2
