"""Damage to what a run has written: noticed wherever it is, said, and made anew from the checkpoint or refused."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.composing import tiny
from tests.conftest import no_pictures
from tests.golden.make import HERE
from tests.train.stopping import interrupted_at, stop
from tests.train.test_trainer import assert_equal_runs, small, whole  # noqa: F401 - a fixture
from varnet.base.files import MOST
from varnet.cli.train import run
from varnet.errors import ConfigError, Interrupted
from varnet.report import groups
from varnet.runs import checksums, past, stored
from varnet.runs import folder as runs
from varnet.runs.folder import CONFIG, METRICS, finished, folder_of, saved_config
from varnet.runs.opening import open_finished
from varnet.runs.resuming import resumed
from varnet.train.history import HISTORY

pytestmark = pytest.mark.usefixtures("unpictured")
NESTED = b'{"acc_k": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
CONTENTS = {
    "empty": b"", "zeros": bytes(500), "null": b"null", "list": b"[]\n", "text": b'"acc_k"', "not a number": b"NaN",
    "deep": NESTED, "no text": b"\xff\xfe\xff", "a number": b"1\n2\n", "no numbers": b'{"acc_k": NaN}\n',
    "of null": b'{"acc_k": null}',
}  # fmt: skip


def flips(path: Path):
    """One bit of every byte of a file flipped in turn; the file is whole again afterwards."""
    original = path.read_bytes()
    for place in range(len(original)):
        damaged = bytearray(original)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        yield place
    path.write_bytes(original)


def planted(path: Path, kind: str, tmp_path: Path) -> None:
    """Something that is no file in the place of one."""
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to itself":
        path.symlink_to(path)
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    elif kind == "link to nowhere":
        path.symlink_to(tmp_path / "nowhere")
    else:
        with open(path, "wb") as file:
            file.truncate(MOST + 1)  # of holes


PLANTED = ("pipe", "folder", "link to itself", "link to a device", "link to nowhere", "of many gigabytes")


# ---- finished runs


def test_a_bit_flipped_anywhere_is_noticed(folder, monkeypatch):
    metrics, lines = finished(folder), past.history(folder)
    assert metrics and len(lines) == 1
    assert all(finished(folder) is None for _ in flips(folder / METRICS)) and finished(folder) == metrics
    for _ in flips(folder / CONFIG):
        with pytest.raises(stored.Refused, match="does not fit its checksum"):
            stored.load(folder / CONFIG)
    copy = past._copied(folder)
    monkeypatch.setattr(past, "_copied", lambda _: copy)  # its file is read below
    assert all(past.history(folder) == lines for _ in flips(folder / HISTORY))


def test_a_bit_flipped_in_the_checksums_lets_no_wrong_number_in(folder):
    metrics, lines = finished(folder), past.history(folder)
    for place in flips(folder / checksums.NAME):
        assert finished(folder) in (None, metrics)
        if place % 40 == 0:
            with contextlib.suppress(ConfigError):  # refused
                assert past.history(folder) == lines


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("noted", [True, False], ids=["with checksums", "of an earlier version"])
def test_what_is_no_metrics_is_none(folder, content, noted, caplog):
    if not noted:
        (folder / checksums.NAME).unlink()
    (folder / METRICS).write_bytes(content)
    assert finished(folder) is None
    assert groups.read_run(folder).metrics is None and "metrics.json is damaged" in caplog.text


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("name", [METRICS, CONFIG, HISTORY, checksums.NAME])
def test_what_is_no_file_is_refused_and_nothing_waits_for_it(tmp_path, folder, name, kind):
    lines = past.history(folder)
    planted(folder / name, kind, tmp_path)
    if name == METRICS:
        assert finished(folder) is None
    elif name == HISTORY:
        assert past.history(folder) == lines
    elif name == CONFIG:
        with pytest.raises(ConfigError, match=r"config\.yaml"):
            saved_config(folder)
    elif kind != "link to nowhere":  # the same as no checksums
        assert finished(folder) is None
    groups.read_run(folder)


def test_the_same_command_makes_everything_anew(tmp_path, trained, monkeypatch, caplog):
    """Metrics from the weights and the history of the checkpoint; a history and a configuration of a finished run."""
    cfg = tiny(tmp_path)
    folder = shutil.copytree(trained, folder_of(cfg))
    before = {name: (folder / name).read_bytes() for name in (METRICS, CONFIG, HISTORY)}
    for name in (HISTORY, CONFIG):
        (folder / name).write_bytes(before[name].replace(b"2", b"3"))
        assert run(cfg) == json.loads(before[METRICS]), name
        assert f"{name} " in caplog.text and "made anew" in caplog.text
        found = (folder / name).read_bytes()
        assert (
            found == before[name]
            if name == HISTORY
            else found == before[name].replace(str(trained.parents[1]).encode(), str(tmp_path).encode())
        )
    (folder / METRICS).write_bytes(before[METRICS].replace(b"acc_k", b"acc_x"))
    (folder / HISTORY).write_bytes(before[HISTORY].replace(b"acc_k", b"acc_x"))
    again = run(cfg)
    assert again.keys() == json.loads(before[METRICS]).keys() and finished(folder) == again
    assert {k: v for k, v in again.items() if k not in ("seconds", "commit")} == {
        k: v for k, v in json.loads(before[METRICS]).items() if k not in ("seconds", "commit")
    }
    assert (folder / HISTORY).read_bytes() == before[HISTORY]


def test_a_history_without_a_copy_is_refused_and_the_report_says_so(folder, caplog):
    (folder / HISTORY).write_text("")
    for path in folder.glob("checkpoint*"):
        path.unlink()
    with pytest.raises(ConfigError, match=r"history.jsonl is damaged or missing, and .* has no checkpoint.pt"):
        past.history(folder)
    found = groups.read_run(folder)
    assert found.metrics and found.curves == {"epoch": []} and "history.jsonl is damaged or missing" in caplog.text


# ---- runs that go on


@pytest.fixture(scope="module")
def half(tmp_path_factory) -> Path:
    """The folder of a run of four epochs that was stopped in its third."""
    cfg = small(tmp_path_factory.mktemp("half"))
    with pytest.MonkeyPatch.context() as patch, no_pictures(), pytest.raises(Interrupted):
        interrupted_at(5, patch, stop)
        run(cfg)
    return folder_of(cfg)


DAMAGES = {
    "emptied": lambda path: path.write_text(""),
    "missing": lambda path: path.unlink(),
    "a digit": lambda path: path.write_text(path.read_text().replace('"train_acc": ', '"train_acc": 1', 1)),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_history_is_made_anew_before_a_run_goes_on(tmp_path, half, whole, damage, caplog):  # noqa: F811
    folder = shutil.copytree(half, tmp_path / half.name)
    damage(folder / HISTORY)
    run(resumed(folder, []), folder)
    assert "history.jsonl is damaged or missing: it is made anew from the checkpoint" in caplog.text
    assert_equal_runs(whole, folder)


def test_a_history_that_is_emptied_under_its_run_is_whole_at_the_end(tmp_path, monkeypatch, whole, caplog):  # noqa: F811
    cfg = small(tmp_path)
    interrupted_at(6, monkeypatch, lambda _: (folder_of(cfg) / HISTORY).write_text(""))
    run(cfg)
    assert "is not as its run has written it: it is made anew" in caplog.text
    assert_equal_runs(whole, folder_of(cfg))


@pytest.mark.parametrize("content", [b"", b'{"epoch": 1}\n[]\n'], ids=["emptied", "damaged"])
def test_a_lost_history_of_an_earlier_version_is_said(tmp_path, content, caplog):
    """Whose checkpoints have no copy."""
    (old,) = (HERE / "runs" / "interrupted").iterdir()
    folder = shutil.copytree(old, tmp_path / old.name)
    (folder / HISTORY).write_bytes(content)
    metrics = run(resumed(folder, ["device=cpu", "threads=1"]), folder)
    lost = 2 - content.count(b"epoch")  # the last ones of those that the checkpoint knows
    assert f"{lost} of its 2 epochs are lost to curves and tables" in caplog.text and metrics["epochs"] == 3
    assert [row["epoch"] for row in past.history(folder)] == [*[1, 2][: 2 - lost], 3]
    if content:
        assert (folder / f"{HISTORY}.damaged").read_bytes() == content


# ---- a configuration that was changed after the run

CHANGES = {"seed": ("seed: 0", "seed: 1"), "threshold": ("threshold: null", "threshold: 1.0"),
           "test_size": ("test_size: 20", "test_size: 10")}  # fmt: skip


@pytest.mark.parametrize("old, new", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("noticed_by", ["checksum", "name", "checkpoint"])
def test_a_configuration_that_was_changed_after_the_run_is_refused(tmp_path, folder, old, new, noticed_by):
    path = folder / CONFIG
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    message = "does not fit its checksum"
    if noticed_by != "checksum":
        (folder / checksums.NAME).unlink()
        message = "is not that of the run by whose digest"
    if noticed_by == "checkpoint":
        folder = folder.rename(tmp_path / "renamed")
        message = old.split(":")[0]  # the key, in the sentence of a comparison with the checkpoint or of a check
    with pytest.raises(ConfigError, match=message):
        open_finished(folder)
    with pytest.raises(ConfigError, match=message):
        (folder / METRICS).unlink()
        run(resumed(folder, []), folder)
    if noticed_by != "checkpoint":
        assert groups.read_run(folder).config == {}


@pytest.mark.parametrize("old", sorted(HERE.glob("runs/*/*")), ids=lambda path: path.parent.name)
def test_folders_without_checksums_are_read_as_before(old):
    assert not (old / checksums.NAME).exists()
    assert saved_config(old).schedule.epochs == 3
    assert [row["epoch"] for row in past.history(old)] == [1, 2, 3][: len(past.history(old))] and past.history(old)
    if old.parent.name == "finished":
        assert open_finished(old).metrics == json.loads((old / METRICS).read_text())


# ---- what a folder says about places


@pytest.mark.parametrize("dataset", ["digits", "mnist"])
def test_a_folder_has_nothing_made_in_places_that_it_names(tmp_path, folder, monkeypatch, dataset, caplog):
    cfg = saved_config(folder)
    cfg.dataset.name, cfg.out_dir, cfg.data_dir = dataset, str(tmp_path / "theirs"), str(tmp_path / "data of theirs")
    (folder / checksums.NAME).unlink()
    (folder / CONFIG).unlink()
    folder = folder.rename(folder.with_name("of a stranger"))
    runs.keep_config(folder, cfg)
    asked = saved_config(folder)
    assert asked.data_dir is None and "had its data in" in caplog.text
    assert resumed(folder, [f"data_dir={tmp_path}"]).data_dir == str(tmp_path)  # asked for
    if dataset == "digits":
        (folder / METRICS).unlink()
        cfg = resumed(folder, [])
        (folder / "checkpoint.pt").unlink(), run(cfg, folder)
        open_finished(folder)
    assert not (tmp_path / "theirs").exists() and not (tmp_path / "data of theirs").exists()


def test_data_that_lie_where_a_run_had_them_are_used(tmp_path, folder):
    cfg = saved_config(folder)
    cfg.dataset.name, cfg.data_dir = "mnist", str(tmp_path)
    (folder / checksums.NAME).unlink()
    (folder / CONFIG).unlink()
    folder = folder.rename(folder.with_name("moved"))
    runs.keep_config(folder, cfg)
    (tmp_path / "varnet_mnist.bin").touch()
    assert saved_config(folder).data_dir == str(tmp_path)
