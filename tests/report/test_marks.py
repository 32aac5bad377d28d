"""What stands between the marks of a document is what the rows of a folder say."""

import json
from dataclasses import replace

import pytest

from varnet.errors import ConfigError
from varnet.report import Published, Row, as_json, rows_of
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


def test_numbers_that_we_do_not_run_stand_beside_ours(tmp_path):
    lines = [Published("ours", "ours", "error", 1.92), Published("ours", "ours", "compression", 68.0),
             Published("pruning", None, "error", 1.59), Published("pruning", None, "compression", 12.0)]  # fmt: skip
    run = {"acc_det": 98.11, "compression": 106.5, "seed": 0, "epochs": 200}
    (tmp_path / "t.json").write_text(as_json(rows_of(lines, lambda name: [run] if name == "ours" else [])))
    assert filled("<!-- table: t columns=metrics -->\n<!-- end -->", tmp_path).splitlines()[2:-2] == [
        "|  | error, % | compression |",
        "|---|---|---|",
        "| ours | 1.89 (1.92) | 106.5 (68.00) |",
        "| pruning | - (1.59) | - (12.00) |",
        "",
        "Ours (published); full, 200 epochs; n = 1.",
    ]
    assert filled("<!-- verdict: t -->x<!-- end -->", tmp_path) == "<!-- verdict: t -->2 not shown<!-- end -->"
    assert "pruning" not in filled("<!-- table: t scale=full;small -->\n<!-- end -->", tmp_path)
    assert rows_of(lines, lambda name: []) == [], "a table of nothing of ours is none"


def test_both_modes_of_batch_norm(tmp_path):
    def found(elbo, accuracy):
        return {"elbo": elbo, "data_term": -9.82, "kl": 1.65, "elbo_error": 0.83}, {"accuracy": accuracy}

    predictions = ("deterministic", "one sample", "K samples")
    (bound, own), (other, batch) = found(-11.47, 11.35), found(-18.88, 98.2)
    modes = dict.fromkeys(predictions, own) | {f"{name}, batch norm by batch": batch for name in predictions}
    layer = {"modes": modes, "elbo": bound, "elbo, batch norm by batch": other}
    (tmp_path / "bn.json").write_text(json.dumps({"layer": layer}))
    row = Row.of("layer", "elbo", [-10.24], -17.4, scale="full", command="", commit="")
    (tmp_path / "t.json").write_text(as_json([row]))
    mark = "<!-- modes: bn published=t -->\n<!-- end -->"
    assert filled(mark, tmp_path).splitlines()[4:-2] == [
        "| layer, published |  | -17.40 |  |  |  |  |",
        "| layer | training set | -11.47 ± 0.83 | -9.82 | 11.35 | 11.35 | 11.35 |",
        "| layer | test or training batch of 200 | -18.88 ± 0.83 | -9.82 | 98.20 | 98.20 | 98.20 |",
    ]
    (tmp_path / "bn.json").write_text("[]")
    with pytest.raises(ConfigError, match="holds no evaluations"):
        filled(mark, tmp_path)


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
