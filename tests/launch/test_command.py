"""What command lines share: flags, runs and key=value, the folder for numbers, and how a command ends."""

import json

import pytest

from varnet.errors import CheckpointError, ConfigError, DataError, Stopped
from varnet.launch import command
from varnet.launch.ending import guarded, stopped_in_a_sentence
from varnet.launch.table import print_table


@pytest.mark.parametrize(
    ("given", "folder", "others"),
    [
        (["a=1"], None, ["a=1"]),
        (["resume=x", "a=1"], "x", ["a=1"]),
        (["++resume=x", "resume=y=z"], "y=z", []),
        (["resume=null"], None, []),
    ],
)
def test_a_folder_given_by_name(given, folder, others):
    found, rest = command.named_folder(given, "resume")
    assert (found and str(found), rest) == (folder, others)


def test_hydras_folder_is_not_that_of_a_run():
    for override in ("hydra.run.dir=x", "++hydra.run.dir=x"):
        with pytest.raises(ConfigError, match=r"^hydra\.run\.dir=x is not where a run goes, .*: use out_dir=$"):
            command.in_out_dir(["a=1", override])
    command.in_out_dir(["a=1", "hydra.sweep.dir=x", "hydra/launcher=joblib"])


def test_runs_may_have_an_equals_sign_in_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=1").mkdir()
    places, overrides = command.places_and_overrides(["lr=1", "lr=2", "there"])
    assert [str(place) for place in places] == ["lr=1", "there"] and overrides == ["lr=2"]


def test_numbers_go_to_the_folder_of_the_only_run_or_to_out(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    for folder in (run, other):
        folder.mkdir()
        (folder / "metrics.json").write_text("{}")
    assert command.folder_for([run], None) == command.folder_for([run], str(run)) == run
    assert command.folder_for([run, other], str(tmp_path / "out")) == tmp_path / "out"
    for places, out in (([run, other], None), ([run / "snapshot_1.pt"], None), ([run], str(other))):
        with pytest.raises(ConfigError, match=r"out="):
            command.folder_for(places, out)


@pytest.mark.parametrize("content", [None, {"of": "us"}])
def test_numbers_of_the_same_runs_are_replaced(tmp_path, content):
    path = tmp_path / "numbers.json"
    if content:
        path.write_text(json.dumps(content))
    command.check_unlike(path, lambda found: found["of"] == "us", "other runs")


@pytest.mark.parametrize("text", ['{"of": "them"}', "{}", "[1]", "not json"])
def test_other_numbers_are_not_replaced(tmp_path, text):
    (tmp_path / "numbers.json").write_text(text)
    with pytest.raises(ConfigError, match="is of other runs: use out=FOLDER for another place, or delete it"):
        command.check_unlike(tmp_path / "numbers.json", lambda found: found["of"] == "us", "other runs")


ENDINGS = [
    (ConfigError("is invalid: use 1", "a", 2), 2, "error: a=2 is invalid: use 1\n"),
    (DataError("no data:\n put some there"), 2, "error: no data: put some there\n"),
    (CheckpointError("cannot be read"), 2, "error: cannot be read\n"),
    (OSError(28, "No space left on device", "/x"), 4, "error: No space left on device (/x): use out=FOLDER"),
    (None, 0, ""),
]


@pytest.mark.parametrize(("error", "code", "said"), ENDINGS)
def test_the_end_of_a_script(error, code, said, capsys):
    def work() -> None:
        if error is not None:
            raise error

    assert guarded(work) == code
    assert capsys.readouterr().err.startswith(said)


def test_a_mistake_of_ours_is_not_made_a_sentence():
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: 1 / 0)


@pytest.mark.parametrize(("code", "said"), [(3, "error: not finite\n"), (143, "not finite\n")])
def test_the_end_of_a_run(code, said, capsys):
    def attempt() -> dict:
        raise Stopped("not finite", code)

    with pytest.raises(SystemExit) as caught:
        stopped_in_a_sentence(attempt)
    assert caught.value.code == code and capsys.readouterr().err == said
    assert stopped_in_a_sentence(lambda: {"acc_k": 1.0}) == {"acc_k": 1.0}


def test_the_table_at_the_end_of_a_run(capsys):
    numbers = {"acc_1": 97.5, "acc_det": 98.0, "acc_k": 98.25, "elbo": -1234.5, "data_term": -34.5, "kl": 1200.0}
    about = {"name": "net", "seed": 3, "epochs": 2, "samples": 20}
    print_table({**numbers, **about, "acc_zero_mean_k": None, "log_alpha": {"dense1": 1.234}})
    shown = capsys.readouterr().out
    for words in ("net, seed 3, 2 epochs", "20 samp.", "97.50 %", "98.00 %", "98.25 %", " - ", "-1234", "dense1 1.23"):
        assert words in shown, shown
