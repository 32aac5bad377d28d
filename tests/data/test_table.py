"""dataset=table: a CSV of numbers, its split and units; one sentence for whatever is wrong with it."""

import pytest
import torch

from tests.nn.refused import assert_refused
from varnet.data import load

ROWS = [(i, 10.0 * i % 7, 5, 2 * i + 1, "ab"[i % 2], i % 3) for i in range(50)]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "x.csv"


def numeric(file, columns: str = "a,b,c,y"):
    names = ["a", "b", "c", "y", "kind", "grade"]
    keep = [names.index(name) for name in columns.split(",")]
    text = "".join(",".join(str(row[i]) for i in keep) + "\n" for row in ROWS)
    file.write_text(f"\ufeff{columns}\n\n{text}", encoding="utf-8")  # as some programs write it
    return str(file)


def test_a_column_is_predicted_from_the_others(file):
    data = load("table", file=numeric(file), target="y", seed=3)
    assert (len(data.train_y), len(data.test_y), data.in_shape, data.targets, data.classes) == (40, 10, (3,), 1, 0)
    assert sorted(torch.cat([data.train_y, data.test_y])[:, 0].tolist()) == [row[3] for row in ROWS]
    torch.testing.assert_close(data.train_x.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(data.train_x.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]))  # c is constant
    slope = (data.test_y - data.train_y.mean())[:, 0] / data.test_x[
        :, 0
    ]  # y is linear in a: test rows in the same units
    torch.testing.assert_close(slope, slope[:1].expand(10), rtol=1e-4, atol=0)
    same, other = (load("table", file=str(file), target="y", seed=seed) for seed in (3, 4))
    assert torch.equal(same.test_y, data.test_y) and not torch.equal(other.test_y, data.test_y)


def test_units_are_those_of_the_training_rows_that_are_left(file):
    options = {"file": numeric(file), "target": "y", "test_fraction": 0.3}
    data = load("table", **options, validation_size=5, train_size=20)
    assert [len(y) for y in (data.train_y, data.validation_y, data.test_y)] == [20, 5, 15]
    torch.testing.assert_close(data.train_x[:, :2].std(0, correction=0), torch.ones(2))


def test_several_targets_and_classes(file):
    several = load("table", file=numeric(file), target=["y", "b"])
    assert several.targets == 2 and several.in_shape == (2,)
    words = load("table", file=numeric(file, "a,b,kind"), target="kind", classes=True)
    assert (words.classes, words.targets, words.train_y.dtype) == (2, 0, torch.int64)
    assert torch.bincount(words.test_y).tolist() == [5, 5]
    whole = load("table", file=numeric(file, "a,grade"), target="grade", classes=True)
    assert whole.classes == 3


@pytest.mark.parametrize(
    ("content", "options", "key", "words"),
    [
        (None, {}, "file", ["is not there, or is no file"]),
        ("", {}, "file", ["has no rows below a line with the names"]),
        ("a,y\n", {}, "file", ["has no rows"]),
        ("1,2\n3,4\n", {}, "file", ["begins with a line of numbers"]),
        ("a,a\n1,2\n", {}, "file", ["two of one name"]),
        ("a,y,\n1,2,3\n", {}, "file", ["columns without a name"]),
        ("a,y\n1,2\n3\n", {}, "file", ["has 1 values in line 3 for 2 columns"]),
        ("a,y\n1,2\n\n3,x\n", {}, "target", ["'x' in line 4, column 'y'", "likelihood=categorical"]),
        ("a,y\n1,2\nred,3\n", {}, "file", ["'red' in line 3, column 'a'"]),
        ("a,y\n1,2\n,3\n", {}, "file", ["'' in line 3, column 'a'", "leave the line or the column out"]),
        ("a,y\n1,nan\n2,3\n", {}, "target", ["'nan' in line 2, column 'y', which is no finite number"]),
        ("a,y\ninf,1\n2,3\n", {}, "file", ["'inf' in line 2"]),
        ("a,y\n1,2\n3,4\n", {}, "file", ["has 2 rows, too few"]),
        ("a,y\n" + "1,2\n" * 9, {"target": "z"}, "target", ["names no column 'z': choose from a, y"]),
        ("a,y\n" + "1,2\n" * 9, {"target": ["a", "y"]}, "target", ["leaves no column to predict from"]),
        ("a,y\n" + "1,2\n" * 9, {"target": None}, "target", ["use the name of a column"]),
        ("a,y\n" + "1,2\n" * 9, {"file": None}, "file", ["use the name of a CSV file"]),
        ("a,y\n" + "1,2\n" * 9, {"test_fraction": 1.0}, "test_fraction", ["below 1"]),
        ("a,y\n" + "1,2\n" * 9, {"classes": True}, "target", ["holds one class only (2.0)"]),
        ("a,y\n1,0.5\n" + "1,2\n" * 9, {"classes": True}, "target", ["numbers such as 0.5", "use likelihood=gaussian"]),
        ("a,y\n1,\n" + "1,2\n" * 9, {"classes": True}, "target", ["has nothing in line 2"]),
        ("a,b,y\n" + "1,2,3\n" * 9, {"classes": True, "target": ["b", "y"]}, "target", ["use likelihood=bernoulli"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(content, options, key, words, tmp_path):
    path = tmp_path / "x.csv"
    if content is not None:
        path.write_text(content)
    assert_refused(lambda: load("table", **{"file": str(path), "target": "y", **options}), key, *words)


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,y\n\xff\xfe,1\n")
    assert_refused(lambda: load("table", file=str(path), target="y"), "file", "cannot be read", "UTF-8")
    assert_refused(lambda: load("table", file=str(tmp_path), target="y"), "file", "is no file")
