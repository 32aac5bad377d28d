"""The one row: what is read is written again as it was, and numbers are made of values."""

import json
from dataclasses import replace

import pytest

from tests.composing import ROOT
from varnet.errors import ConfigError
from varnet.report.row import Row, as_json, from_dict, read

RESULTS = ROOT / "docs" / "results"
TABLES = sorted(path for path in RESULTS.glob("*.json") if path.read_text().startswith("["))
FIGURES = sorted(path for path in RESULTS.glob("*.numbers.json") if '"rows"' in path.read_text())
ABOUT = {"scale": "full", "command": "python train.py", "commit": "0123456789"}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_what_was_published_is_read_and_written_as_it_is(path):
    rows = read(path)
    assert rows and as_json(rows) == path.read_text()


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_the_rows_among_the_numbers_of_a_figure_too(path):
    numbers = json.loads(path.read_text())
    rows = [from_dict(values).as_dict() for values in numbers["rows"]]
    assert json.dumps(numbers | {"rows": rows}, indent=1) + "\n" == path.read_text()


def test_there_are_tables_and_figures_to_read():
    assert len(TABLES) >= 11 and len(FIGURES) >= 4


def test_a_row_of_values():
    row = Row.of("layer", "kl", [1.0, 2.0, 3.0], published=1.5, seeds=[0, 1, 2], **ABOUT)
    assert (row.mean, row.std, row.n, row.difference) == (2.0, 1.0, 3, 0.5)
    assert Row.of("layer", "kl", [2.0], **ABOUT).std is None
    nothing = Row.of("layer", "kl", [], 1.5, **ABOUT)
    assert (nothing.mean, nothing.std, nothing.n, nothing.difference) == (None, None, 0, None)


def test_a_new_row_is_written_in_one_order_and_without_what_it_has_not():
    row = Row.of("layer", "kl", [1.0], 1.5, epochs=3, more={"images": 200}, **ABOUT)
    assert list(row.as_dict()) == [
        "row", "metric", "published", "mean", "std", "n", "difference", "verdict", "images", "scale", "epochs",
        "command", "commit",
    ]  # fmt: skip
    assert from_dict(row.as_dict()) == row and from_dict(row.as_dict()).as_dict() == row.as_dict()


def test_a_reduced_scale_has_no_verdict():
    row = Row.of("layer", "acc_k", [84.3, 84.4, 84.5], 93.4, **ABOUT)
    assert row.verdict == "contradicted" and replace(row, scale="small").verdict is None


def test_a_file_that_is_not_there_has_no_rows(tmp_path):
    assert read(tmp_path / "none.json") == []


@pytest.mark.parametrize("text", ["", "{", "3", "[3]", '[{"row": "layer"}]'])
def test_a_damaged_file_is_said(text, tmp_path):
    (tmp_path / "noise.json").write_text(text)
    with pytest.raises(ConfigError, match=r"noise\.json holds no rows of a table: restore it, or delete it"):
        read(tmp_path / "noise.json")
