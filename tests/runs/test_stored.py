"""A run folder of a stranger: what its configuration may hold, and links planted in it."""

import json
import os
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.golden.make import HERE
from varnet.errors import ConfigError
from varnet.report import groups
from varnet.runs import stored
from varnet.runs.folder import CONFIG, opened, saved_config, stored_config
from varnet.train.logger import Logger

GOLDEN = sorted(HERE.glob("runs/*/*"))
SECRET = "a value that nobody may read"


def alias_bomb(levels: int = 9) -> str:
    """A kilobyte that stands for 10**levels values."""
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    """A finished run whose configuration a test may spoil."""
    monkeypatch.setenv("VARNET_SECRET", SECRET)
    folder = tmp_path / "run"
    shutil.copytree(next(path for path in GOLDEN if (path / "metrics.json").exists()), folder)
    return folder


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda path: path.parent.name)
def test_what_a_run_has_written_is_read_as_before(folder):
    assert stored.load(folder / CONFIG) == OmegaConf.load(folder / CONFIG)


INTERPOLATED = {
    "variable": "${oc.env:VARNET_SECRET}", "inside of text": "a ${oc.env:VARNET_SECRET} b", "another key": "${seed}",
    "escaped": '"\\x24{oc.env:VARNET_SECRET}"', "in a list": "[1, '${oc.env:VARNET_SECRET}']",
    "resolver of this process": "${spy:}", "literal": "|\n  ${oc.env:VARNET_SECRET}",
}  # fmt: skip


@pytest.mark.parametrize("value", INTERPOLATED.values(), ids=INTERPOLATED)
def test_an_interpolation_is_refused_and_no_resolver_runs(run, value):
    called = []
    OmegaConf.register_new_resolver("spy", lambda: called.append(1), replace=True)
    text = (run / CONFIG).read_text()
    (run / CONFIG).write_text("\n".join(f"name: {value}" if x.startswith("name:") else x for x in text.splitlines()))
    for read in (stored_config, saved_config):
        with pytest.raises(ConfigError, match="has an interpolation") as error:
            read(run)
        assert SECRET not in str(error.value)
    found = groups.read_run(run)
    assert found.config == {} and "cannot be read" in found.progress
    OmegaConf.clear_resolver("spy")
    assert not called


TOO_MUCH = {
    "aliases": (alias_bomb(), "stands for more than"),
    "merged": ("a: &a {b: 1}\n" + "c: {<<: [" + ", ".join(["*a"] * 20_000) + "]}", "stands for more than"),
    "long text": ("a: &a " + "x" * 200_000 + "\nb: [*a, *a, *a, *a, *a]", "stands for more than"),
    "itself": ("a: &a [*a]", "contains itself"),
    "deep": ("a: " + "[" * 100_000 + "]" * 100_000, "nested deeper"),
    "large": ("# " + "x" * 1_000_000, "is larger than"),
}


@pytest.mark.parametrize("content, reason", TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_would_grow_is_refused_before_it_is_built(run, monkeypatch, content, reason):
    def built(_content):
        raise AssertionError("built")

    (run / CONFIG).write_text(content)
    with monkeypatch.context() as patch:
        patch.setattr(OmegaConf, "create", built)
        with pytest.raises(ConfigError, match=reason):
            stored_config(run)
    assert groups.read_run(run).config == {}


def test_a_few_aliases_are_read(tmp_path):
    (tmp_path / "config.yaml").write_text("a: &a [1, 2]\nb: *a\nc: {d: *a}\n")
    assert stored.load(tmp_path / "config.yaml") == {"a": [1, 2], "b": [1, 2], "c": {"d": [1, 2]}}


def test_a_pipe_is_no_configuration(run):
    (run / CONFIG).unlink()
    os.mkfifo(run / CONFIG)
    with pytest.raises(ConfigError, match="is no file"):
        stored_config(run)


@pytest.mark.parametrize("name", [".lock", "history.jsonl"])
def test_a_run_writes_through_no_link(tmp_path, run, name):
    theirs, cfg = tmp_path / "theirs", saved_config(run)
    theirs.write_text(json.dumps({"epoch": 1}) + "\n")
    before = theirs.read_bytes()
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(theirs)
    if name == ".lock":
        with pytest.raises(ConfigError, match="a link or a device"), opened(run, cfg):
            pass
    else:
        logger = Logger(run, epochs=1)
        logger.epoch({"epoch": 2}, {}, 2)
        assert not (run / name).is_symlink()
    assert theirs.read_bytes() == before


def test_a_run_makes_no_file_in_a_folder_that_it_links_to(tmp_path, run):
    cfg, theirs = saved_config(run), tmp_path / "theirs"
    shutil.rmtree(run / ".hydra")
    theirs.mkdir()
    (run / ".hydra").symlink_to(theirs)
    with pytest.raises(ConfigError, match="hydra in it is a link"), opened(run, cfg):
        pass
    assert not list(theirs.iterdir())


def test_what_a_killed_run_left_half_written_is_removed(run):
    (run / "checkpoint.pt.new.0123456789abcdef.part").write_bytes(b"half")
    with opened(run, saved_config(run)):
        assert not list(run.glob("*.part"))
