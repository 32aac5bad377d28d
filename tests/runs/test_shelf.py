"""Stored networks: a run is stored, opened, evaluated by its name; what is damaged or strange is refused; and every
network that lies in networks/ is still what its card says."""

import json
import math
from pathlib import Path

import pytest
import torch
import yaml

import varnet
from tests.composing import tiny
from tests.nn.refused import assert_refused
from varnet.cli import attack, evaluate, publish
from varnet.cli.train import run
from varnet.data.fetch import cache_path
from varnet.data.folder import data_folder
from varnet.evaluation import metrics
from varnet.evaluation.predictions import predict
from varnet.report import shelving
from varnet.report.shelving import shelve
from varnet.runs import checksums, likeness, shelf
from varnet.runs.folder import folder_of
from varnet.runs.opening import open_finished

FEW = ("eval.draws=0", "eval.elbo_samples=0", "eval.angles=[]", "eval.fractions=[]", "threads=1")


@pytest.fixture(scope="module")
def shelves(trained, tmp_path_factory) -> Path:
    """A folder of stored networks: a run as it is, and in half precision."""
    root = tmp_path_factory.mktemp("shelf") / "networks"
    for name, half in (("tiny", False), ("tiny_half", True)):
        shelve(open_finished(trained), name, "LeNet-5 of two steps", half, None, root)
    return root


@pytest.fixture
def here(shelves, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(shelf, "NETWORKS", shelves)
    monkeypatch.chdir(tmp_path)
    return shelves


def test_a_stored_network_is_that_of_its_run(here, trained):
    wanted, found = open_finished(trained).model.state_dict(), varnet.load("tiny")
    assert found.model.state_dict().keys() == wanted.keys() and not found.model.training
    assert all(torch.equal(value, wanted[name]) for name, value in found.model.state_dict().items())
    rounded = varnet.load(here / "tiny_half")
    for name, value in rounded.model.state_dict().items():
        torch.testing.assert_close(value, wanted[name], rtol=2**-8 if value.dim() > 1 else 0, atol=1e-7)
    assert rounded.card["bytes"] < 0.7 * found.card["bytes"] and shelf.names() == ["tiny", "tiny_half"]


def test_a_card_says_what_the_stored_network_does(here, trained):
    found = varnet.load("tiny_half")
    data = found.data()
    seen = predict(found.model, data.loader("test", len(data.test_y)), "deterministic")
    modes = found.card["modes"]
    assert modes["deterministic"]["accuracy"] == metrics.accuracy(seen.log_probs, seen.y)
    assert {"one sample", "K samples", "zero-mean, K samples", "one draw of the weights"} <= modes.keys()
    assert found.card["objects"] == len(data.test_y) == 20 and found.card["precision"] == "half"
    assert found.card["commit"] == json.loads((trained / "metrics.json").read_text())["commit"]
    text = (here / "tiny_half" / "README.md").read_text()
    assert "| deterministic |" in text and "random layers: dense1" in text and 'varnet.load("tiny_half")' in text
    assert "| [tiny](tiny/README.md) | LeNet-5 of two steps |" in (here / "README.md").read_text()
    assert str(trained.parent) not in (here / "tiny" / "card.yaml").read_text(), "no place of this machine"


def test_it_is_evaluated_by_its_name(here, tmp_path):
    before = sorted(path.name for path in (here / "tiny").iterdir())
    assert evaluate.main(["tiny", *FEW]) == 0
    results = json.loads((tmp_path / "outputs" / "stored" / "tiny" / "evaluation.json").read_text())
    wanted = varnet.load("tiny").card["modes"]
    assert results["modes"]["deterministic"]["accuracy"] == wanted["deterministic"]["accuracy"]
    assert results["modes"]["K samples"]["accuracy"] == wanted["K samples"]["accuracy"]  # the same seed
    assert sorted(path.name for path in (here / "tiny").iterdir()) == before


def test_a_name_that_is_not_there(here, capsys):
    assert evaluate.main(["tiny_quarter", *FEW]) == 2
    assert "is not a folder: name the folder of a run, or a stored network (tiny, tiny_half)" in capsys.readouterr().err
    assert_refused(lambda: varnet.load("tiny_quarter"), None, "choose from tiny, tiny_half")


def test_what_lies_in_the_current_folder_comes_first(here, trained, tmp_path):
    (tmp_path / "tiny").symlink_to(trained)
    assert (
        open_finished(Path("tiny")).folder == Path("tiny")
        and open_finished(Path("tiny_half")).folder == here / "tiny_half"
    )


@pytest.mark.usefixtures("unpictured")
def test_a_compact_network_is_stored_and_opened(tmp_path):
    cfg = tiny(tmp_path, "model=lenet300", "param=additive", "param.layers=all", "param.log_sigma=-5.0")
    run(cfg)
    opened = open_finished(folder_of(cfg))
    folder = shelve(opened, "small", "LeNet-300-100", False, 0.0, tmp_path / "networks")
    found = varnet.load(folder)
    data = found.data()
    x = data.loader("test", 20)
    original = varnet.compact(opened.model, 0.0)
    assert all(torch.equal(found.model(a), original(a)) for a, _ in x)
    assert found.model.report.compression == original.report.compression > 1 and found.card["threshold"] == 0.0
    assert list(found.card["modes"]) == ["deterministic"] and likeness.agrees(found.model, found.card)
    card = yaml.safe_load((folder / shelf.CARD).read_text())
    card["layers"][1]["shape"] = [10**6, 10**6]
    (folder / shelf.CARD).write_text(yaml.safe_dump(card))
    assert_refused(lambda: varnet.load(folder), None, "has a network of more than 67,108,864 weights")


STRANGE = {  # what is changed in a card -> what is said
    "model.width=1000.0": "holds fewer numbers than its network has",
    "model.width=1.0e+30": "width=1e+30 is invalid",
    "model.width=0.02": "does not hold what its network has",
    "model.name=custom": "another version of varnet",
    "about=${oc.env:HOME}": "has an interpolation",
    "classes=null": "classes=null is invalid: use a whole number from 2",
    "in_shape=[1,28,28,1]": "describes no network for images or points",
    "format=varnet network 9": "use one of varnet network 1",
    "sha256='0'": "is not the one that its card was written for",
}


def changed(card: dict, change: str) -> dict:
    key, _, value = change.partition("=")
    place = card["config"]["model"] if key.startswith("model.") else card
    place[key.removeprefix("model.")] = yaml.safe_load(value)
    return card


@pytest.mark.parametrize("what", STRANGE)
def test_a_strange_card_is_refused(what, shelves, tmp_path):
    card = changed(yaml.safe_load((shelves / "tiny" / shelf.CARD).read_text()), what)
    (tmp_path / shelf.CARD).write_text(yaml.safe_dump(card))
    (tmp_path / shelf.FILE).write_bytes((shelves / "tiny" / shelf.FILE).read_bytes())
    assert_refused(lambda: varnet.load(tmp_path), None, STRANGE[what])


def test_a_damaged_file_is_refused(shelves, tmp_path):
    content = bytearray((shelves / "tiny" / shelf.FILE).read_bytes())
    content[-1] ^= 1
    (tmp_path / shelf.CARD).write_bytes((shelves / "tiny" / shelf.CARD).read_bytes())
    (tmp_path / shelf.FILE).write_bytes(content)
    assert_refused(lambda: varnet.load(tmp_path), None, "restore the folder")
    (tmp_path / shelf.FILE).unlink()
    assert_refused(lambda: varnet.load(tmp_path), None, "is no file: restore the folder")


def test_another_network_is_noticed(here):
    found = varnet.load("tiny")
    assert likeness.agrees(found.model, found.card)
    with torch.no_grad():
        for parameter in found.model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    assert not likeness.agrees(found.model, found.card)


def test_the_command_stores_a_run_of_a_clean_commit(folder, tmp_path, capsys):
    metrics_of = json.loads((folder / "metrics.json").read_text())
    (folder / checksums.NAME).unlink()
    arguments = ["network=mine", f"from={folder}", "about=my network: small", "half=true", "threads=1"]
    for commit, words in ((None, "tells no commit"), ("0123-dirty", "is of commit 0123-dirty")):
        (folder / "metrics.json").write_text(json.dumps(metrics_of | {"commit": commit}))
        assert publish.main(arguments, tmp_path) == 2 and words in capsys.readouterr().err
    assert not (tmp_path / "networks").exists()
    (folder / "metrics.json").write_text(json.dumps(metrics_of | {"commit": "0123"}))
    assert publish.main(arguments, tmp_path) == 0
    assert (
        "# mine" in capsys.readouterr().out
        and varnet.load(tmp_path / "networks" / "mine").card["about"] == "my network: small"
    )
    assert publish.main([*arguments, "network=Mine"], tmp_path) == 2
    assert "network=Mine is invalid: use small letters, digits and _" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "networks").iterdir()) == ["README.md", "mine"]


# ---- what is there


def there() -> list[str]:
    """Large ones are opened under slow."""
    marks = {name: [pytest.mark.slow] * (_bytes(name) > shelving.SMALL) for name in shelf.names()}
    return [pytest.param(name, marks=found) for name, found in marks.items()]


def _bytes(name: str) -> int:
    return (shelf.NETWORKS / name / shelf.FILE).stat().st_size


@pytest.mark.parametrize("name", there())
def test_a_network_that_is_there_is_what_its_card_says(name):
    """On images that everyone has it gives the labels of its card; where its data is there, it has its accuracy."""
    found = varnet.load(name)
    assert found.card["name"] == name and found.card["bytes"] == _bytes(name)
    assert "likeness" not in found.card or likeness.agrees(found.model, found.card)
    dataset = found.card["config"]["dataset"]["name"]
    if dataset not in ("digits", "toy") and not cache_path(dataset, data_folder()).exists():
        assert "likeness" in found.card
        return
    data, mode = found.data(), "K samples" if "K samples" in found.card["modes"] else "deterministic"
    batches = [next(iter(data.loader("test", min(300, len(data.test_y)))))]
    how = ("sample", found.card["samples"]) if mode == "K samples" else ("deterministic", 1)
    seen = predict(found.model, batches, *how)
    wanted, n = found.card["modes"][mode]["accuracy"] / 100, len(seen.y)
    spread = math.sqrt(max(wanted * (1 - wanted), 1 / n) / n)
    assert metrics.accuracy(seen.log_probs, seen.y) / 100 == pytest.approx(wanted, abs=5 * spread)


def test_a_network_that_is_there_is_attacked_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = ["iterations=2", "samples=2", "images=4", "candidates=10", "eot=0", "transfer=false", "threads=1"]
    assert attack.main(["digits_layer", *few]) == 0
    results = json.loads((tmp_path / "outputs" / "stored" / "digits_layer" / "attack.json").read_text())
    (line,) = results["lines"]
    assert line["images"] == len(line["which"]) == len(line["outcomes"]["2"][0]) == 4 and results["comparisons"] == []


def test_what_is_there_is_not_too_large():
    sizes = [_bytes(name) for name in shelf.names()]
    assert sizes and max(sizes) <= shelving.LARGEST
    assert sum(size for size in sizes if size <= shelving.SMALL) <= shelving.TOGETHER
    assert sum(size > shelving.SMALL for size in sizes) <= 1, "one large network"
