"""What reproduce.py wrote is taken into docs/results: records add up, tables are built anew, and all has a commit."""

import json
import shutil

import pytest

from tests.composing import ROOT
from tests.paper.by_hand import complete
from varnet.cli import publish, reproduce
from varnet.launch.queue import Job
from varnet.paper import intake
from varnet.paper.intake import Recorded, clean
from varnet.paper.reproduction import TARGETS
from varnet.report import as_json, read

RESULTS = ROOT / "docs" / "results"
PAGE = "# Noise\n\n<!-- verdict: noise --><!-- end --> by hand\n\n<!-- table: noise -->\n<!-- end -->\n"


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose page of the noise families has been written, and whose results are empty."""
    root = tmp_path / "checkout"
    (root / "docs" / "results").mkdir(parents=True)
    (root / "docs" / "results" / "noise.md").write_text(PAGE)
    (root / "README.md").write_text("# A project\n")
    return root


def made(here, out, target="noise", seeds=(), experiment="noise_bernoulli", **metrics):
    """What reproduce.py writes of these runs, whose folders are gone afterwards."""
    for seed in seeds:
        complete(Job(experiment, seed), **metrics)
    assert reproduce.main([target, "run=false", f"out={out}"]) == 0
    shutil.rmtree(here, ignore_errors=True)
    return out


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_runs_of_two_days_add_up_on_the_page(here, tmp_path, checkout, capsys):
    results = checkout / "docs" / "results"
    first = made(here, tmp_path / "one", seeds=(0, 1), acc_k=98.6)
    assert publish.main([f"from={first}"], checkout) == 0
    assert capsys.readouterr().out.endswith("taken: noise\n")
    assert files(results) == [
        "noise.json", "noise.md", "runs/noise_bernoulli-seed0.json", "runs/noise_bernoulli-seed1.json"
    ]  # fmt: skip
    assert "| bernoulli | 20 samples, % | 98.70 | 98.60 ± 0.00 | 2 |" in (results / "noise.md").read_text()
    record = "noise_bernoulli-seed0.json"
    assert (results / "runs" / record).read_bytes() == (first / "runs" / record).read_bytes()
    second = made(here, tmp_path / "two", seeds=(2,), acc_k=98.9)
    assert publish.main([f"from={second}", "noise"], checkout) == 0
    (row,) = read(results / "noise.json")
    assert (row.n, row.seeds, round(row.mean, 3)) == (3, [0, 1, 2], 98.7)
    text = (results / "noise.md").read_text()
    assert "by hand" in text and "<!-- verdict: noise -->1 reproduced<!-- end -->" in text, "98.7 ± 0.29 at 90 %"
    assert publish.main(["--check"], checkout) == 0


def test_a_table_that_shares_a_run_is_built_anew(here, tmp_path, checkout):
    """noise_gaussian is table1_zero_mean."""
    results = checkout / "docs" / "results"
    first = made(here, tmp_path / "one", "table1", (0,), "table1_zero_mean")
    second = made(here, tmp_path / "two", "noise", (1,), "noise_gaussian")
    assert publish.main([f"from={first}"], checkout) == 0 and publish.main([f"from={second}"], checkout) == 0
    assert {row.n for name in ("table1", "noise") for row in read(results / f"{name}.json")} == {2}


@pytest.mark.parametrize(
    ("commit", "told"), [("0123456789abcdef-dirty", "is of commit 0123456789abcdef-dirty"), (None, "tells no commit")]
)
def test_a_run_without_a_clean_commit_is_refused_and_nothing_taken(here, tmp_path, checkout, capsys, commit, told):
    complete(Job("noise_bernoulli", 0))
    complete(Job("noise_bernoulli", 1), commit=commit)
    out = made(here, tmp_path / "out")
    capsys.readouterr()
    assert publish.main([f"from={out}"], checkout) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: the record noise_bernoulli-seed1.json {told}: ") and error.count("\n") == 1
    assert files(checkout / "docs" / "results") == ["noise.md"]
    assert (checkout / "docs" / "results" / "noise.md").read_text() == PAGE


def test_a_row_of_the_table_tells_changes_too(here, tmp_path):
    out = made(here, tmp_path / "out", seeds=(0,), commit="0123456789abcdef-dirty")
    assert read(out / "noise.json")[0].commit == "0123456789-dirty"


def figure(folder, **about):
    """Files of Figure 6 as reproduce.py writes them: of runs that have no records."""
    folder.mkdir()
    row = {"row": "acrobot", "metric": "score", "published": None, "mean": 1.0, "std": None, "n": 1, "scale": "full"}
    (folder / "fig6.json").write_text(json.dumps([{**row, "command": "c", "commit": "abc", **about}]))
    (folder / "fig6.numbers.json").write_text('{"a": 1}\n')
    (folder / "fig6.png").write_bytes(b"picture")
    (folder / "fig6.md").write_text("## what reproduce.py wrote")
    return folder


def test_a_figure_is_taken_as_it_was_drawn(tmp_path, checkout):
    source = figure(tmp_path / "out")
    assert publish.main([f"from={source}"], checkout) == 0
    results = checkout / "docs" / "results"
    assert files(results) == ["fig6.json", "fig6.numbers.json", "fig6.png", "noise.md"]
    assert (results / "fig6.png").read_bytes() == b"picture"


@pytest.mark.parametrize("about", [{"commit": "abc, def-dirty"}, {"commit": None}, {"attack_commit": "None"}])
def test_rows_of_a_figure_need_a_clean_commit(tmp_path, checkout, capsys, about):
    source = figure(tmp_path / "out", **about)
    assert publish.main([f"from={source}"], checkout) == 2
    error = capsys.readouterr().err
    assert '"acrobot" of fig6.json' in error and error.count("\n") == 1
    assert files(checkout / "docs" / "results") == ["noise.md"]


def test_what_is_not_there_is_said(here, tmp_path, checkout, capsys):
    assert publish.main([f"from={tmp_path / 'nowhere'}"], checkout) == 2
    assert "holds none of these tables and figures: run reproduce.py first" in capsys.readouterr().err
    out = made(here, tmp_path / "out", seeds=(0,))
    assert publish.main([f"from={out}", "table1"], checkout) == 2
    (out / "runs" / "noise_bernoulli-seed0.json").unlink()
    capsys.readouterr()
    assert publish.main([f"from={out}"], checkout) == 2
    assert "has no record of a run of noise: make noise again" in capsys.readouterr().err


def test_a_page_is_not_written_over(here, checkout):
    """out=docs/results makes the numbers; publish.py alone writes to the page."""
    results = checkout / "docs" / "results"
    made(here, results, seeds=(0,))
    assert (results / "noise.json").exists() and (results / "noise.md").read_text() == PAGE


@pytest.mark.parametrize(
    ("commit", "expected"),
    [("abc", True), ("abc, def", True), ("abc-dirty, def", False), ("abc, None", False), ("", False), (None, False)],
)
def test_clean_commits(commit, expected):
    assert clean(commit) is expected


def test_what_is_published_is_clean():
    known = Recorded(RESULTS / "runs")
    assert len(known.recorded) > 70
    assert [record["metrics"]["commit"] for _, record in known.recorded if not clean(record["metrics"]["commit"])] == []
    for name in ("fig6", "fig7", "fig7_mnist", "linear"):
        rows = read(RESULTS / f"{name}.json")
        assert rows and all(clean(row.commit) and clean(row.more.get("attack_commit", "abc")) for row in rows)


def same_as_published(name):
    known = Recorded(RESULTS / "runs")
    return as_json(intake.table(TARGETS[name], known)) == (RESULTS / f"{name}.json").read_text()


def test_a_table_is_rebuilt_from_records():
    assert same_as_published("noise")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.draw is None])
def test_every_table_is_rebuilt_from_records(name):
    assert same_as_published(name)
