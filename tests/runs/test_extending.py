"""docs/extending.md: its diffs make new files in a copy of the project, and its commands run there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.composing import ROOT
from tests.statistics_helper import Z

PAGE = (ROOT / "docs" / "extending.md").read_text()
RUNNER = Path(__file__).with_name("extended.py")
ROOMS = ("varnet/", "configs/")  # what is of the project; anything else is the user's own


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def new_files() -> dict[str, str]:
    """Path -> content, of diffs that make files."""
    found = {}
    for block in blocks("diff"):
        for part in re.split(r"^--- /dev/null\n", block, flags=re.MULTILINE)[1:]:
            head, count, body = re.fullmatch(r"\+\+\+ b/(\S+)\n@@ -0,0 \+1,(\d+) @@\n(.*)", part, re.DOTALL).groups()
            lines = body.splitlines()
            assert len(lines) == int(count) and all(line.startswith("+") for line in lines), head
            found[head] = "".join(line[1:] + "\n" for line in lines)
    return found


def commands(name: str) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    return [words[2:] for words in lines if words[1] == name and not any("FOLDER" in word for word in words)]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy with the new files of the page in it, and a folder of the user's own beside it."""
    root = tmp_path_factory.mktemp("project")
    for room in ("varnet", "configs"):
        # without Python's own caches, but with what numba has compiled: that takes seconds
        shutil.copytree(ROOT / room, root / room, ignore=shutil.ignore_patterns("*.pyc"))
    for path, content in new_files().items():
        file = root / path if path.startswith(ROOMS) else root / "own" / path
        assert not file.exists(), f"{path} is there already"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


@pytest.fixture(scope="module")
def done(project) -> dict:
    """What all the commands of the page gave, one after the other in one process."""
    given = {"train": commands("train"), "reproduce": commands("reproduce"), "made": str(project / "made")}
    environment = {**os.environ, "PYTHONPATH": str(project)}
    work = subprocess.run(
        [sys.executable, str(RUNNER), json.dumps(given)], cwd=project / "own", env=environment, capture_output=True,
        text=True,
    )  # fmt: skip
    assert work.returncode == 0, work.stderr
    return json.loads(work.stdout.splitlines()[-1])


def test_the_files_are_of_the_style_of_the_project(project):
    made = [str(project / path) for path in new_files() if path.startswith("varnet/")] + [
        str(project / "own" / "mine.py")
    ]
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed")
    config = ["--config", str(ROOT / "pyproject.toml")]
    for what in (["check"], ["format", "--check"]):
        found = subprocess.run([str(ruff), *what, *config, *made], capture_output=True, text=True)
        assert found.returncode == 0, found.stdout


def test_every_way_to_extend_has_a_file_and_all_commands_ran(done):
    folders = {str(Path(path).parent) for path in new_files()}
    assert folders >= {
        "varnet/nn/params", "varnet/nn/priors", "varnet/nn/likelihoods", "varnet/nn/layers", "varnet/nn/networks",
        "varnet/data/sets", "varnet/paper", ".",
    }  # fmt: skip
    assert len(done["runs"]) == len(commands("train")) >= 8
    for run in done["runs"]:
        assert (run["rmse_k"] > 0 if run["acc_k"] is None else 0 <= run["acc_k"] <= 100) and run["kl"] >= 0, run


def test_names_of_the_command_line_reach_the_network(done):
    softplus, laplace, noise, pyramid, spirals, residual, clouds, dropout, rows = done["runs"]
    assert softplus["params"] == ["softplus"] and softplus["priors"] == ["gaussian"] and softplus["option"] == -4
    assert laplace["priors"] == ["laplace"] and laplace["params"] == ["weight"] and laplace["option"] == 0.1
    assert noise["option"] == 0.5 and noise["rmse_k"] > 0 and noise["in_shape"] == [10]
    assert pyramid["layers"] == ["dense1"] and pyramid["convolutions"] == 3
    assert spirals["classes"] == 2 and spirals["in_shape"] == [2] and spirals["name"].startswith("spirals_fc")
    assert residual["layers"] == ["2.inner.2", "3.inner.2"] and "log_alpha" in residual
    assert clouds["in_shape"] == [5] and clouds["layers"] == ["dense1", "dense2"]
    assert dropout["layers"] == []
    assert rows["layers"] == ["1", "4"] and rows["kinds"] == ["Conv1d", "Linear"]


def test_the_prior_of_the_page_is_the_divergence_that_it_says(done):
    """Closed form against samples, for several breadths."""
    for one in done["laplace"]:
        assert abs(one["closed"] - one["sampled"]) < Z * one["error"], one


def test_the_likelihood_of_the_page_is_the_distribution_that_it_says(done):
    assert done["noise"] == {"log_prob": True, "cdf": True, "variance": True}


def test_the_layer_of_the_page_samples_as_a_dense_layer_of_counts_does(done):
    assert done["bag"] == {"kind": True, "deterministic": True, "moments": True, "weights": True, "fast": True}


def test_the_table_and_the_figure_of_the_page_are_written(done, project):
    assert done["reproduced"] == 0
    table = (project / "made" / "reproduced" / "narrow.md").read_text()
    assert "| width 0.1 | deterministic, % |" in table and "| 2 |" in table
    assert (project / "made" / "reproduced" / "narrow_curves.png").stat().st_size > 5_000


def test_the_project_itself_is_as_it_was(project):
    """A new file is all there is to it: no list had to be edited."""
    for path in sorted((ROOT / "varnet").rglob("*.py")):
        assert (project / path.relative_to(ROOT)).read_bytes() == path.read_bytes()
