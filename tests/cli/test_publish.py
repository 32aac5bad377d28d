"""RESULTS.md and README.md show what docs/results says."""

from dataclasses import replace

from varnet.cli import publish
from varnet.report import Row, as_json


def test_the_tables_in_the_pages_are_those_of_the_json():
    assert publish.main(["--check"]) == 0


def test_a_table_is_filled_in_and_the_text_around_it_kept(tmp_path):
    row = Row.of("uniform", "acc_k", [98.5], 98.7, scale="full", epochs=200, command="c", commit="d")
    (tmp_path / "noise.json").write_text(as_json([row, replace(row, row="bernoulli")]))
    text = "before\n<!-- table: noise rows=uni metrics=acc_k -->\nold\n<!-- end -->\nafter\n"
    new = publish.filled(text, tmp_path)
    assert new.startswith("before\n") and new.endswith("after\n") and "old" not in new and "bernoulli" not in new
    assert "| uniform | 20 samples, % | 98.70 | 98.50 | 1 | -0.20 | full, 200 epochs |" in new
    assert publish.filled(new, tmp_path) == new
    assert "Not run yet" in publish.filled(text.replace("metrics=acc_k", "scale=small"), tmp_path)
    assert "Not run yet" in publish.filled("<!-- table: table1 -->\n<!-- end -->", tmp_path)
