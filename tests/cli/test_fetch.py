"""scripts/fetch_data.py: what it prints and how it ends."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data.tiny_data import install_tiny, tiny_spec, write_files
from tests.processes import HANG
from varnet.data import DATASETS

SCRIPT = Path(__file__).parents[2] / "scripts" / "fetch_data.py"


@pytest.fixture
def run(monkeypatch, capsys):
    """run(*arguments) -> exit code, stdout, stderr of the script, without a new process."""

    def run_script(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        return end.value.code, *capsys.readouterr()

    return run_script


def test_datasets_without_files_in_a_process_of_its_own(tmp_path):
    command = [sys.executable, str(SCRIPT), "digits", "toy"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0 and "digits: nothing to fetch" in done.stdout and "toy: nothing to fetch" in done.stdout
    assert not os.listdir(tmp_path)


def test_it_says_where_the_data_is_and_where_it_came_from(run, monkeypatch, tmp_path):
    _, files = install_tiny(monkeypatch, "mnist")
    write_files(tmp_path / "mnist", files)
    for _ in range(2):  # fetched, then verified in the cache
        code, out, _ = run("mnist", "--data-dir", tmp_path)
        assert code == 0
        assert (
            f"60 images, MD5 of 4 official files right, from {tmp_path / 'mnist'}, in {tmp_path}/varnet_mnist.bin"
            in out
        )


def test_a_cache_that_is_not_the_official_data_is_found_out(run, monkeypatch, tmp_path):
    arrays, files = install_tiny(monkeypatch, "mnist")
    write_files(tmp_path / "mnist", files)
    run("mnist", "--data-dir", tmp_path)
    monkeypatch.setitem(DATASETS, "mnist", tiny_spec("mnist", arrays | {"test_y": arrays["test_y"][::-1]}))
    code, _, err = run("mnist", "--data-dir", tmp_path)
    assert code == 1 and "t10k-labels-idx1-ubyte has MD5" in err and "delete it" in err


@pytest.mark.parametrize("names", [("mnits",), ("digits", "mnits")])
def test_a_bad_name_is_one_sentence(run, names):
    code, out, err = run(*names)
    assert code == 2 and out == ""
    assert "mnits is not a dataset: choose from " in err and "mnist" in err


@pytest.mark.parametrize("below", [".", "below"])
def test_a_folder_that_cannot_be_used_is_one_sentence(run, tmp_path, below):
    (tmp_path / "file").write_text("")
    code, _, err = run("mnist", "--data-dir", tmp_path / "file" / below)
    assert code == 1 and err.count("\n") == 1 and "data_dir" in err
