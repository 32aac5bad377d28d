"""A file of varnet/paper that registers a target is found; nothing else has to name it."""

import json
import sys

import pytest

from tests.paper.by_hand import complete
from varnet import paper
from varnet.cli import reproduce
from varnet.launch.queue import Job
from varnet.paper import targets
from varnet.paper.reproduction import TARGETS
from varnet.report import read

TABLE = """
from varnet.paper import Published, table

table("mine", "My table", [Published("a row", "noise_uniform", "acc_k", 98.0)])
"""
FIGURE = """
from matplotlib.figure import Figure

from varnet.paper import Drawn, Library, figure, one_seed


@figure("fig42", "My figure", "noise_uniform", seeds=one_seed)
def draw(library: Library) -> Drawn:
    return Drawn(Figure(figsize=(0.1, 0.1)), {"runs": len(library.finished("noise_uniform"))})
"""


@pytest.fixture
def strangers_files(tmp_path, monkeypatch):
    """Two files more in the folder; what they register goes away with them."""
    before = dict(TARGETS)
    (tmp_path / "files").mkdir()
    for name, text in (("my_table", TABLE), ("my_figure", FIGURE)):
        (tmp_path / "files" / f"{name}.py").write_text(text)
    monkeypatch.setattr(paper, "__path__", [*paper.__path__, str(tmp_path / "files")])
    targets.found()
    yield
    TARGETS.clear()
    TARGETS.update(before)
    for name in ("my_table", "my_figure"):
        del sys.modules[f"varnet.paper.{name}"]


def test_the_order_is_tables_then_figures_those_of_the_paper_first():
    assert list(TARGETS) == [
        "table1", "table1_cifar10", "table2", "table3", "noise", "phase", "random_labels", "sparse", "fig1", "fig2",
        "fig3", "fig3_alpha", "fig3_control", "fig3_control_alpha", "fig4", "fig5", "fig6", "fig6_one_rate", "fig7",
        "fig7_mnist", "fig8", "fig8_alpha", "fig9", "emptying", "linear", "width",
    ]  # fmt: skip


@pytest.mark.usefixtures("here", "strangers_files")
def test_a_new_file_is_built_listed_and_part_of_all(tmp_path, capsys):
    out = tmp_path / "out"
    complete(Job("noise_uniform", 0), acc_k=97.5)
    assert reproduce.main(["mine", "fig42", "run=false", f"out={out}"]) == 0
    (row,) = read(out / "mine.json")
    assert (row.row, row.published, row.mean) == ("a row", 98.0, 97.5)
    assert json.loads((out / "fig42.numbers.json").read_text()) == {"runs": 1}
    assert "My table" in (out / "report.html").read_text() and "My figure" in (out / "report.html").read_text()
    capsys.readouterr()
    assert reproduce.main(["--help"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line]
    assert set(TARGETS) <= set(listed) and reproduce.parse(["all"], list(TARGETS))[0] == list(TARGETS)
    assert list(TARGETS).index("mine") < list(TARGETS).index("fig9") < list(TARGETS).index("fig42")


def test_two_targets_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two targets are called table1: give one of them another name"):
        targets.table("table1", "Another", [])
