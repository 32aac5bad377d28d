"""What may not move when the code does: golden/make.py wrote it at commit 827ae37, before the modules had rooms."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch

from tests.composing import composed
from tests.golden import make
from varnet.cli import evaluate
from varnet.cli.train import run
from varnet.runs.folder import folder_of
from varnet.runs.identity import digest
from varnet.runs.opening import open_finished
from varnet.runs.resuming import resumed
from varnet.train import checkpoint

IDENTITY, STATE_DICTS = (json.loads((make.HERE / f"{name}.json").read_text()) for name in ("identity", "state_dicts"))
COMBINATIONS = {tuple(words.split()): wanted for words, wanted in IDENTITY["combinations"].items()}
NUMBERS = ("elbo", "data_term", "kl", "nll_det", "nll_1", "nll_k", "nll_zero_mean_k")


def composed_of(choice: tuple[str, ...]):
    return composed(*(f"{group}={name}" for group, name in zip(make.GROUPS, choice, strict=True)))


def moved(found: dict, wanted: dict) -> dict:
    """What is not as it was, to be read in a message; what is new may be anything."""
    return {key: (found.get(key), value) for key, value in wanted.items() if found.get(key) != value}


def test_the_identity_of_every_experiment_stays():
    found = {name: digest(composed(f"experiment={name}")) for name in IDENTITY["experiments"]}
    assert not moved(found, IDENTITY["experiments"])


def covering() -> dict[tuple[str, ...], str]:
    """Of the combinations, every dataset x model x param with one prior, in turn; so all pairs with a prior too."""
    numbers = [{name: i for i, name in enumerate(sorted(set(names)))} for names in zip(*COMBINATIONS, strict=True)]
    places = {choice: [n[name] for n, name in zip(numbers, choice, strict=True)] for choice in COMBINATIONS}
    return {choice: COMBINATIONS[choice] for choice, (*three, prior) in places.items() if sum(three) % 5 == prior}


def test_the_identity_of_combinations_of_all_choices_stays():
    assert len(COMBINATIONS) == 1000 and len(covering()) == 200
    assert not moved({choice: digest(make.combined(*choice)) for choice in covering()}, covering())


def test_choices_that_are_put_together_are_what_hydra_composes():
    """So that the test above says what a user gets; of every choice of every group there is one at least."""
    longest = max(len(make.names(group)) for group in make.GROUPS)
    shuffled = [random.Random(0).sample(make.names(group) * longest, longest) for group in make.GROUPS]
    covering = [[*make.names(group), *more][:longest] for group, more in zip(make.GROUPS, shuffled, strict=True)]
    for choice in zip(*covering, strict=True):
        assert digest(composed_of(choice)) == digest(make.combined(*choice)), choice


@pytest.mark.slow
def test_every_combination_that_hydra_composes_has_its_identity():
    assert not moved({choice: digest(composed_of(choice)) for choice in COMBINATIONS}, COMBINATIONS)


def test_records_stay_in_their_rows():
    paths = [make.RECORDS / name for name in IDENTITY["records"]]
    found = {path.name: make.kind_of(json.loads(path.read_text())) for path in paths}
    assert not moved(found, IDENTITY["records"])


def test_the_names_and_shapes_of_every_state_dict_stay():
    assert not moved(make.state_dicts(), STATE_DICTS)


# ---- runs of commit 827ae37


def old_run(name: str, place: Path) -> Path:
    (folder,) = (make.HERE / "runs" / name).iterdir()
    return shutil.copytree(folder, place / name / folder.name)


def test_an_old_run_opens(tmp_path):
    folder = old_run("finished", tmp_path)
    found = open_finished(folder)
    assert found.metrics == json.loads((folder / "metrics.json").read_text())
    weights, saved = found.model.state_dict(), checkpoint.read(folder / checkpoint.NAME)["model"]
    assert weights.keys() == saved.keys() and all(torch.equal(weights[key], saved[key]) for key in saved)
    assert folder.name == f"seed0-{digest(found.cfg)}"


def test_an_old_run_is_evaluated_to_its_own_numbers(tmp_path):
    folder = old_run("finished", tmp_path)
    few = ["eval.samples=2", "eval.elbo_samples=2", "eval.draws=0", "eval.angles=[]", "eval.fractions=[]"]
    assert evaluate.main([str(folder), *few, "threads=1"]) == 0
    found = json.loads((folder / evaluate.RESULT).read_text())
    wanted = json.loads((folder / "metrics.json").read_text())
    assert found["modes"]["deterministic"]["nll"] == pytest.approx(wanted["nll_det"], rel=1e-5)
    for key in ("kl", "data_term", "elbo"):  # the same seed
        assert found["elbo"][key] == pytest.approx(wanted[key], rel=1e-4), key


@pytest.mark.usefixtures("unpictured")
def test_an_old_run_that_was_stopped_ends_as_the_one_that_was_not(tmp_path):
    folder, whole = old_run("interrupted", tmp_path), old_run("finished", tmp_path)
    wanted = json.loads((whole / "metrics.json").read_text())
    cfg = resumed(folder, ["device=cpu", "threads=1"])
    assert folder_of(cfg).relative_to("outputs") == folder.relative_to(tmp_path)
    metrics = run(cfg, folder)
    assert {key: metrics[key] for key in NUMBERS} == pytest.approx({key: wanted[key] for key in NUMBERS}, rel=1e-4)
    histories = [(place / "history.jsonl").read_text().splitlines() for place in (folder, whole)]
    assert [[json.loads(line)["epoch"] for line in lines] for lines in histories] == [[1, 2, 3], [1, 2, 3]]
