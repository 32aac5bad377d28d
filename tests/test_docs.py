"""The documents: links lead somewhere, code runs, commands are understood."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

import varnet
from tests.composing import ROOT, composed
from varnet.launch import sweep
from varnet.runs.schema import check

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "results").glob("*.md")])
AS_IT_IS = [page for page in PAGES if page.name != "extending.md"]  # which tests/runs/test_extending.py runs
RUN = ROOT / "tests" / "golden" / "runs" / "finished"
README_BYTES = 9000


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def headings(page: Path) -> set[str]:
    """As GitHub makes anchors of them."""
    found = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text()))
    wrong = []
    for link in (link for link in links if not link.startswith(("http:", "https:"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in headings(target)):
            wrong.append(link)
    assert not wrong


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in AS_IT_IS if blocks(page, "python")], ids=name)
def test_code_runs(page, tmp_path, monkeypatch):
    """The blocks of a page one after the other, in a folder that has a finished run."""
    if any("onnx" in block for block in blocks(page, "python")):
        pytest.importorskip("onnxscript")
    (run,) = RUN.iterdir()
    shutil.copytree(run, tmp_path / "RUN_FOLDER")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks(page, "python"):
        exec(compile(block, name(page), "exec"), names)


def commands(page: Path) -> list[list[str]]:
    """`varnet train` as a page prints it, without what stands for a user's own words (RUN_FOLDER, ...)."""
    text = page.read_text()
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    lines += re.findall(r"`(varnet train [^`]*)`", text)
    split = [shlex.split(line, comments=True) for line in lines if line.startswith("varnet train ")]
    return [
        words[2:] for words in split if not any("..." in word or word.isupper() or "=RUN" in word for word in words)
    ]


@pytest.mark.parametrize("page", [page for page in AS_IT_IS if commands(page)], ids=name)
def test_commands_of_training_are_understood(page):
    for words in commands(page):
        overrides = [word for word in words if not word.startswith("-")]
        if "-m" not in words:
            check(composed(*overrides))
        elif not any(word.startswith("hydra/") for word in words):  # a launcher may not be installed
            assert sweep.plan(ROOT / "configs", overrides).jobs


def test_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= README_BYTES


def test_the_citation_names_software_and_paper():
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["title"].startswith("varnet") and found["cff-version"] == "1.2.0"
    assert found["preferred-citation"]["title"] == "Variance Networks: When Expectation Does Not Meet Your Expectations"
    assert found["version"] == varnet.__version__


def test_the_architecture_names_what_is_there():
    names = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", (ROOT / "docs" / "architecture.md").read_text())
    assert len(names) > 20
    assert not [name for name in names if not ((ROOT / "varnet" / name).exists() or (ROOT / name).exists())]


def test_the_changelog_tells_where_modules_went():
    table = (ROOT / "CHANGELOG.md").read_text().partition("### Moved")[2].partition("## ")[0]
    places = [line.split("|")[2] for line in table.splitlines() if line.startswith("| `")]
    new = {name for place in places for name in re.findall(r"varnet(?:\.\w+)+", place)}
    gone = [name for name in new if not list(ROOT.glob(f"{name.replace('.', '/')}*"))]
    assert len(new) > 20 and not gone
