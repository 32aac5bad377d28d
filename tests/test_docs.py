"""The documents: links lead somewhere, code runs, commands are understood."""

import importlib
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import varnet
from tests.composing import ROOT, composed
from varnet.base.nested import flat
from varnet.cli import COMMANDS, compress
from varnet.launch import sweep
from varnet.rl.trainer import COLUMNS
from varnet.runs.schema import check
from varnet.train.logger import scalars

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
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
        # The site makes one hyphen of several.
        if not target.exists() or (anchor and (anchor not in headings(target) or "--" in anchor)):
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


def options(command: str) -> set[str]:
    """The keys of a command that opens runs."""
    if command == "compress":
        return set(flat(compress.DEFAULTS))
    return set(flat(yaml.safe_load((ROOT / "configs" / f"{command}.yaml").read_text())))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_are_there_with_their_keys(page):
    lines = [line for block in blocks(page, "sh") for line in block.splitlines() if line.startswith("varnet ")]
    inline = re.findall(r"`(varnet [a-z][^`\n]*)`", without_code(page.read_text()))
    for words in (line.split("#")[0].split() for line in [*lines, *inline]):
        assert {*words[1].split("|")} <= {*COMMANDS} or words[1] == "--version"
        if words[1] in ("evaluate", "attack", "compress"):
            assert {word.partition("=")[0].strip("'") for word in words[2:] if "=" in word} <= options(words[1])


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


def explained() -> str:
    """The names in the tables of the page on metrics, with LAYER for a layer's."""
    return " ".join(re.findall(r"`([^`]+)`", (ROOT / "docs" / "metrics.md").read_text())) + " "


def test_every_metric_is_explained():
    (run,) = RUN.iterdir()
    metrics = json.loads((run / "metrics.json").read_text())
    row = json.loads((run / "history.jsonl").read_text().splitlines()[-1])
    row |= {"sparsity": {"dense1": 1.0}, "compression": 1.0}
    tags = {re.sub(r"(?<=/)(conv\d|dense\d)$", "LAYER", tag) for tag in scalars(row)}
    groups = {tag for tag in tags if tag.startswith(("test/", "train/"))}  # which the page names as groups
    wanted = {*metrics, *row, *COLUMNS, *tags - groups, "train/elbo", "log_alpha_histogram/LAYER"}
    words = set(re.split(r"[\s,]+", explained()))
    assert not {name for name in wanted if name not in words}
    assert {tag.partition("/")[2] for tag in groups} <= words


# ---- the site


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "scripts" / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_nav_names_pages_that_are_there(hooks):
    named = hooks.named_in(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert len(named) == len({*named})
    assert not [page for page in named if not (ROOT / hooks.in_checkout(page)).is_file()]


@pytest.mark.parametrize(
    ("link", "own", "moved"),
    [
        ("../RESULTS.md", "training.md", "RESULTS.md"),
        ("../../RESULTS.md", "results/table1.md", "../RESULTS.md"),
        ("docs/results/table1.md", "RESULTS.md", "results/table1.md"),
        ("docs/results/fig1.png", "RESULTS.md", "results/fig1.png"),
        ("LOG.md", "CHANGELOG.md", "LOG.md"),
        ("table2.md", "results/table1.md", "table2.md"),
        ("../LICENSE", "index.md", "../LICENSE"),
    ],
)
def test_links_of_the_site_lead_to_the_same_pages(hooks, link, own, moved):
    assert hooks.moved(link, own) == moved


def test_formulas_have_letters_that_browsers_draw(hooks):
    formula = '<mi mathvariant="script">L</mi><mi>&#x0007E;</mi><mi mathvariant="double-struck">E</mi><mi>L</mi>'
    assert hooks.readable(formula) == "<mi>\u2112</mi><mo>&#x0223C;</mo><mi>\U0001d53c</mi><mi>L</mi>"


def test_the_api_shows_what_is_there():
    pages = [page for page in PAGES if page.parent.name == "api"]
    shown = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
    assert len(shown) > 20
    for name in shown:
        module = next(n for n in (name, name.rpartition(".")[0]) if list(ROOT.glob(f"{n.replace('.', '/')}*")))
        assert name == module or hasattr(importlib.import_module(module), name.rpartition(".")[2])


@pytest.mark.slow
def test_the_site_is_built_and_needs_no_network(tmp_path):
    pytest.importorskip("mkdocs")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)], cwd=ROOT, check=True
    )
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe|link)[^>]*?(?:src|href)=\"?(?:https?:)?//[^\s>]*", text)
        assert not loaded and "arithmatex" not in text, page


def test_the_changelog_tells_where_modules_went():
    table = (ROOT / "CHANGELOG.md").read_text().partition("### Moved")[2].partition("## ")[0]
    places = [line.split("|")[2] for line in table.splitlines() if line.startswith("| `")]
    new = {name for place in places for name in re.findall(r"varnet(?:\.\w+)+", place)}
    gone = [name for name in new if not list(ROOT.glob(f"{name.replace('.', '/')}*"))]
    assert len(new) > 20 and not gone
