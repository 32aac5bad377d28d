"""What stands between the marks of a document is what the rows of a folder say."""

from dataclasses import replace

import pytest

from varnet.errors import ConfigError
from varnet.report import Row, as_json
from varnet.report.marks import filled, has_marks


def test_a_table_is_filled_in_and_the_text_around_it_kept(tmp_path):
    row = Row.of("uniform", "acc_k", [98.5], 98.7, scale="full", epochs=200, command="c", commit="d")
    (tmp_path / "noise.json").write_text(as_json([row, replace(row, row="bernoulli")]))
    text = "before\n<!-- table: noise rows=uni metrics=acc_k -->\nold\n<!-- end -->\nafter\n"
    new = filled(text, tmp_path)
    assert new.startswith("before\n") and new.endswith("after\n") and "old" not in new and "bernoulli" not in new
    assert "| uniform | 20 samples, % | 98.70 | 98.50 | 1 | -0.20 | not shown | full, 200 epochs |" in new
    assert filled(new, tmp_path) == new
    assert "Not run yet" in filled(text.replace("metrics=acc_k", "scale=small"), tmp_path)
    assert "Not run yet" in filled("<!-- table: table1 -->\n<!-- end -->", tmp_path)


def test_a_table_is_turned_round(tmp_path):
    layer = Row.of("layer", "elbo", [-10.24], -17.4, scale="full", epochs=200, precision="bf16", command="", commit="")
    accuracy = replace(layer, metric="acc_k", published=None, mean=99.2)
    zero_mean = replace(layer, row="zero_mean", mean=-3.19, std=0.55, n=5)
    (tmp_path / "t.json").write_text(as_json([zero_mean, layer, accuracy]))
    mark = "<!-- table: t columns=rows -->\n<!-- end -->"
    assert filled(mark, tmp_path).splitlines()[2:-2] == [
        "|  | zero_mean | layer |",
        "|---|---|---|",
        "| ELBO | -3.19 ± 0.55 (-17.40) | -10.24 (-17.40) |",
        "| 20 samples, % | - | 99.20 |",
        "",
        "Ours (published); full, 200 epochs, bf16; n = 5 (zero_mean), 1 (layer).",
    ]


def test_a_table_of_two_scales_is_not_turned_round(tmp_path):
    layer = Row.of("layer", "elbo", [-10.24], -17.4, scale="full", command="", commit="")
    (tmp_path / "t.json").write_text(as_json([layer, replace(layer, scale="small", mean=-573.1)]))
    mark = "<!-- table: t columns=rows -->\n<!-- end -->"
    with pytest.raises(ConfigError, match="choose one scale"):
        filled(mark, tmp_path)
    text = filled(mark.replace("columns", "scale=small columns"), tmp_path)
    assert "| ELBO | -573.1 (-17.40) |" in text and "Ours (published); small; n = 1." in text


def test_verdicts_of_full_scale_are_counted(tmp_path):
    """n = 3 at the published value shows it, far from it contradicts it, one seed shows nothing."""
    same = Row.of("a", "acc_k", [99.1, 99.2, 99.3], 99.2, scale="full", command="", commit="")
    other = Row.of("b", "acc_k", [90.1, 90.2, 90.3], 99.2, scale="full", command="", commit="")
    alone = Row.of("c", "acc_k", [99.2], 99.2, scale="full", command="", commit="")
    unpublished = replace(same, published=None)
    others = [replace(same, scale=scale) for scale in ("small", "half", "fast")]
    (tmp_path / "t.json").write_text(as_json([other, same, alone, alone, unpublished, *others]))
    (tmp_path / "small.json").write_text(as_json([unpublished, *others]))
    line = "| x | {}old<!-- end --> | {}<!-- end --> | {}<!-- end --> |".format(
        *(f"<!-- verdict: {name} -->" for name in ("t", "small", "none"))
    )
    assert filled(line, tmp_path) == (
        "| x | <!-- verdict: t -->1 reproduced, 2 not shown, 1 contradicted<!-- end -->"
        " | <!-- verdict: small -->not judged<!-- end --> | <!-- verdict: none -->not judged<!-- end --> |"
    )


def test_a_page_has_marks_or_has_none():
    assert has_marks("text\n<!-- table: t -->\n<!-- end -->") and has_marks("<!-- verdict: t -->x<!-- end -->")
    assert not has_marks("## Figure 6\n\n| row |\n|---|\n") and not has_marks("<!-- table: t -->")
