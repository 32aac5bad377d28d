"""Tables from fixture runs: the exact text, and what counts as a run of a row."""

import pytest

from tests.paper.by_hand import finished
from varnet.launch.queue import Job
from varnet.paper.library import Library
from varnet.paper.reproduction import TARGETS
from varnet.report import Row, as_html, markdown, rows_of
from varnet.report.tables import cells


@pytest.mark.usefixtures("here")
def test_the_table_of_fixture_runs():
    for seed, value in enumerate((99.1, 99.3, 99.5)):
        finished(Job("noise_bernoulli", seed), acc_k=value)
    finished(Job("small/noise_uniform", 0), acc_k=98.0, epochs=20)
    rows = rows_of(TARGETS["noise"].published, Library(1, "full").metrics)
    assert markdown(rows) == (
        "| row | metric | published | ours | n | difference | verdict | scale |\n"
        "|---|---|---|---|---|---|---|---|\n"
        "| bernoulli | 20 samples, % | 98.70 | 99.30 ± 0.20 | 3 | 0.60 | not shown | full, 200 epochs |\n"
        "| uniform | 20 samples, % | 98.70 | 98.00 | 1 | -0.70 | - | small, 20 epochs |\n"
    )
    assert rows[0].command == "python train.py experiment=noise_bernoulli seed=0,1,2 -m"
    assert rows[0].seeds == [0, 1, 2] and rows[0].commit == "0123456789"
    assert rows[1].std is None and rows[1].precision == "fp32"
    html = as_html(rows)
    assert html.count("<tr>") == 3 and "99.30 ± 0.20" in html


def test_the_poster_and_small_numbers_are_shown():
    row = Row.of("layer", "kl", [0.01234], 1.7, poster=0.36, scale="full", epochs=200, command="c", commit="d")
    shown = cells(row)
    assert shown == ["layer", "KL", "1.70 (poster 0.36)", "0.01234", "1", "-1.69", "not shown", "full, 200 epochs"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("shares", "compression", "wanted"), [((100.0, 100.0), 5000.0, 100.0), ((99.0, 100.0), 200.0, 99.5)]
)
def test_the_sparsity_of_a_whole_network(shares, compression, wanted):
    sparsity = dict(zip(("dense1", "dense2"), shares, strict=True))
    job = Job("random_labels_mnist_sparse_vd", 0)
    finished(job, acc_det=10.0, train_acc_det=10.0, sparsity=sparsity, compression=compression)
    rows = rows_of(TARGETS["random_labels"].published, Library(1, "full").metrics)
    assert [row.mean for row in rows] == [10.0, 10.0, wanted]


@pytest.mark.usefixtures("here")
def test_table_2_says_which_one_sample_it_is_where_a_run_tells():
    finished(Job("table2_mnist_variance", 0), acc_1=98.3)
    old = rows_of(TARGETS["table2"].published, Library(1, "full").metrics)
    assert [row.metric for row in old] == ["acc_1", "acc_det", "acc_k"]
    finished(Job("table2_mnist_variance", 1), acc_1=98.1, acc_1_weights=97.9)
    new = {row.metric: row for row in rows_of(TARGETS["table2"].published, Library(1, "full").metrics)}
    assert new["acc_1"].n == 2 and new["acc_1"].mean == pytest.approx(98.2)
    assert (new["acc_1_weights"].n, new["acc_1_weights"].mean, new["acc_1_weights"].seeds) == (1, 97.9, [1])
    assert new["acc_1_weights"].published == new["acc_1"].published == 98.2
    labels = [cells(new[metric])[1] for metric in ("acc_1_weights", "acc_1")]
    assert labels == ["one sample, one draw of the weights, %", "one sample, noise for each object, %"]


@pytest.mark.usefixtures("here")
def test_a_run_with_another_configuration_is_not_taken_for_a_row():
    finished(Job("noise_bernoulli", 0))
    other = Job("noise_bernoulli", 1)
    finished(other)
    other.folder().rename(other.folder().with_name("seed1-deadbeef"))
    assert [row.n for row in rows_of(TARGETS["noise"].published, Library(3, "full").metrics)] == [1]
