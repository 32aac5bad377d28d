"""The documents show what docs/results says, and are made of it without a run."""

import re
import shutil

import pytest

from tests.composing import ROOT
from tests.nn.refused import assert_refused
from varnet.cli import publish
from varnet.report.marks import MARK

INDEX_BYTES = 3500


@pytest.fixture
def clone(tmp_path):
    """What a fresh clone has of documents and results."""
    for name in ("README.md", "RESULTS.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "docs" / "results", tmp_path / "docs" / "results")
    return tmp_path


def test_the_documents_say_what_the_results_say():
    assert publish.main(["--check"]) == 0


def test_every_page_is_rebuilt_from_the_results_alone(clone, capsys):
    texts = {page: page.read_text() for page in publish.pages(clone)}
    assert {"README.md", "RESULTS.md", "table1.md", "fig7_mnist.md", "linear.md"} <= {page.name for page in texts}
    for page, text in texts.items():
        page.write_text(MARK.sub(r"\1\n\5", text))
    assert publish.main(["--check"], clone) == 1
    assert "README.md, RESULTS.md, docs/results/fig1.md, " in capsys.readouterr().err
    assert publish.main([], clone) == 0 and publish.main(["--check"], clone) == 0
    assert {page: page.read_text() for page in texts} == texts


def test_a_changed_verdict_is_seen_in_index_and_page(clone, capsys):
    path = clone / "docs" / "results" / "table3.json"
    path.write_text(path.read_text().replace('"n": 1,', '"n": 3,').replace('"std": null', '"std": 0.01'))
    assert publish.main(["--check"], clone) == 1
    assert capsys.readouterr().err == (
        "error: RESULTS.md, docs/results/table3.md differs from docs/results: run python scripts/publish.py\n"
    )
    assert publish.main([], clone) == 0
    assert all(
        "<!-- verdict: table3 -->2 reproduced<!-- end -->" in (clone / name).read_text()
        for name in ("RESULTS.md", "docs/results/table3.md")
    )


def test_the_index_is_short_and_leads_to_every_page():
    index = (ROOT / "RESULTS.md").read_text()
    linked = set(re.findall(r"\(docs/results/(\w+\.md)\)", index))
    assert linked == {page.name for page in (ROOT / "docs" / "results").glob("*.md")}
    assert len(index.encode()) <= INDEX_BYTES


def test_every_table_is_on_the_page_of_its_name_with_its_verdict():
    folder = ROOT / "docs" / "results"
    for name in [path.stem for path in folder.glob("*.json") if path.read_text().startswith("[")]:
        page = (folder / f"{re.sub('_small$|_one_rate$', '', name)}.md").read_text()
        assert f"<!-- table: {name} " in page


def test_every_page_opens_with_a_verdict():
    for page in (ROOT / "docs" / "results").glob("*.md"):
        first = page.read_text().splitlines()[2]
        assert page.stem == "errata" or re.match(rf"\*\*Verdict\*\*.*<!-- verdict: {page.stem} -->", first), page


def test_wrong_arguments_are_refused(capsys):
    assert_refused(lambda: publish.parse(["to=somewhere"]), "to", "from=FOLDER")
    assert_refused(lambda: publish.parse(["from="]), "from", "from=FOLDER")
    assert_refused(lambda: publish.parse(["from=a", "table9"]), None, "table9 is not known", "table1")
    assert_refused(lambda: publish.parse(["table1"]), None, "from=FOLDER")
    assert_refused(lambda: publish.parse(["from=a", "--check"]), None, "--check")
    assert publish.main(["table9"]) == 2
    assert capsys.readouterr().err.startswith("error: table9 is not known")
