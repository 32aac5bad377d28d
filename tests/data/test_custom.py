"""dataset=custom: a user's own function, what it may give, and one sentence for whatever it does wrong."""

import sys

import numpy as np
import pytest
import torch

from tests.composing import tiny
from varnet.cli.train import run
from varnet.data import NAMES, Dataset, load
from varnet.errors import ConfigError
from varnet.runs.build import load_data
from varnet.runs.folder import folder_of
from varnet.runs.identity import digest
from varnet.runs.members import open_ensemble
from varnet.runs.opening import open_finished


def points(train: int = 30, test: int = 12, classes: int = 3) -> dict:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(train + test, 5, generator=generator)
    y = torch.arange(train + test) % classes
    return {"train_x": x[:train], "train_y": y[:train], "test_x": x[train:], "test_y": y[train:]}


def images(size: int = 8, channels: int = 2) -> dict:
    given = points()
    for split in ("train", "test"):
        shape = (len(given[f"{split}_y"]), channels, size, size)
        given[f"{split}_x"] = torch.randint(256, shape, generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    return given


def custom(given, **options) -> Dataset:
    return load("custom", target=lambda: given, **options)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the current folder with a function `make(size=30)`; its name."""
    name = "varnet_test_my_points"
    (tmp_path / f"{name}.py").write_text(
        "import torch\n"
        "def make(size=30):\n"
        "    x, y = torch.randn(size, 5, generator=torch.Generator().manual_seed(0)), torch.arange(size) % 3\n"
        "    return x + y[:, None], y, x[:12] + y[:12, None], y[:12]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


# what a function may give


def test_a_function_by_its_path_or_as_it_is(module):
    data = load("custom", target=f"{module}:make", options={"size": 60})
    assert (data.name, data.source, data.classes, data.in_shape) == ("custom", f"{module}:make", 3, (5,))
    assert len(data.train_y) == 60 and len(data.test_y) == 12
    same = load("custom", target=sys.modules[module].make, options={"size": 60})
    assert torch.equal(same.train_x, data.train_x)


def as_tuple(given):
    return tuple(given.values())


def as_dataset(given):
    return Dataset("mine", **given, classes=3, source="a file")


def as_numpy(given):
    return {key: value.numpy() for key, value in given.items()}


def as_other_types(given):
    return {key: value.double() if value.is_floating_point() else value.to(torch.int16) for key, value in given.items()}


@pytest.mark.parametrize("form", [dict, as_tuple, as_dataset, as_numpy, as_other_types], ids=lambda form: form.__name__)
@pytest.mark.parametrize("kind", [points, images])
def test_what_a_function_may_give(form, kind):
    given = kind()
    if form is as_other_types and kind is images:
        given["train_x"], given["test_x"] = given["train_x"].half() / 255, given["test_x"].half() / 255
    data = custom(form(given))
    for key, value in given.items():
        assert torch.equal(getattr(data, key).double(), value.double())
    assert data.classes == 3 and data.train_y.dtype == torch.int64
    assert data.train_x.dtype == (torch.uint8 if given["train_x"].dtype == torch.uint8 else torch.float32)
    x, y = next(iter(data.loader("train", 10)))
    assert x.shape == (10, *data.in_shape) and x.dtype == torch.float32 and y.shape == (10,)


def test_classes_mean_and_std():
    given = images() | {"classes": np.int64(7), "mean": [0.5, 0.4], "std": torch.tensor([0.2, 0.1])}
    data = custom(given)
    assert data.classes == 7 and data.mean == (0.5, 0.4) and data.std == pytest.approx((0.2, 0.1))
    x, _ = next(iter(data.loader("test")))
    wanted = (data.test_x.double() / 255 - torch.tensor([[[0.5]], [[0.4]]])) / torch.tensor([[[0.2]], [[0.1]]])
    assert torch.allclose(x.double(), wanted, atol=1e-5)


def test_the_common_options_work_as_for_other_datasets():
    given = points(train=60)
    data = custom(given, validation_size=15, train_size=30, test_size=6, seed=1)
    for split, size in (("validation", 15), ("train", 30), ("test", 6)):
        assert torch.bincount(getattr(data, f"{split}_y")).tolist() == [size // 3] * 3
    random = custom(given, labels="random", seed=2)
    assert torch.equal(random.train_x, given["train_x"]) and torch.equal(random.test_y, given["test_y"])
    assert not torch.equal(random.train_y, given["train_y"])
    assert not torch.equal(custom(given, labels="random", seed=3).train_y, random.train_y)
    whole = custom(images(), augment=True).loader("train", None, seed=1)
    plain = custom(images()).loader("train", None, seed=1)
    assert not torch.equal(next(iter(whole))[0], next(iter(plain))[0])
    with pytest.raises(ConfigError, match="augment=false") as error:
        custom(given, augment=True)
    assert error.value.key == "augment"


def test_validation_data_of_its_own():
    given = points()
    data = custom(given | {"validation_x": given["test_x"], "validation_y": given["test_y"]})
    assert torch.equal(data.validation_x, given["test_x"]) and len(data.train_y) == 30
    with pytest.raises(ConfigError, match="use null") as error:
        load("custom", target=lambda: data, validation_size=3)
    assert error.value.key == "validation_size"


# what is wrong with it


def changed(kind=points, **changes):
    return lambda: kind() | changes


def raises():
    raise KeyError("no such\nfile")


UNFIT = {
    "a list": (lambda: [1], "a value of type list"),
    "nothing": (lambda: None, "a value of type NoneType"),
    "a short tuple": (lambda: (1, 2, 3), "a tuple of 3"),
    "no test split": (changed(test_x=None, test_y=None), "no test_x"),
    "no labels": (changed(test_y=None), "no test_y"),
    "half a validation split": (changed(validation_x=torch.zeros(3, 5)), "no validation_y"),
    "an unknown key": (changed(labels=3), "'labels', which is not known"),
    "x is a list": (changed(train_x=[[1.0]]), "train_x of type list: return a dense tensor"),
    "x is sparse": (changed(train_x=torch.eye(30, 5).to_sparse()), "dense tensor"),
    "x of strings": (changed(train_x=np.array([["a"]])), "train_x of type <U1"),
    "x of whole numbers": (changed(train_x=torch.zeros(30, 5, dtype=torch.int64)), "type int64: return uint8 images"),
    "x has no features": (changed(train_x=torch.zeros(30)), r"shape \(30,\): return uint8 images"),
    "an image without channels": (
        changed(train_x=torch.zeros(30, 8, 8, dtype=torch.uint8)),
        r"uint8 and shape \(30, 8, 8\): return uint8 images \(N, channels, height, width\)",
    ),
    "an empty split": (changed(test_x=torch.zeros(0, 5), test_y=torch.zeros(0).long()), "which is empty"),
    "not finite": (changed(test_x=torch.full((12, 5), torch.nan)), "test_x with values that are not finite"),
    "splits of two shapes": (changed(test_x=torch.zeros(12, 4)), r"float32 of shape \(5,\) and test_x with .*\(4,\)"),
    "splits of two types": (
        changed(images, test_x=torch.zeros(12, 2, 8, 8)),
        "uint8 of shape .* and test_x with float32",
    ),
    "labels in floats": (changed(train_y=torch.zeros(30)), "train_y with 1 numbers for .* test_y with a class"),
    "one-hot labels": (changed(train_y=torch.eye(30, 3).long()), "train_y with 3 numbers for .* test_y with a class"),
    "labels of images": (changed(train_y=torch.zeros(30, 2, 2)), r"shape \(30, 2, 2\): return a whole number for each"),
    "a target that is not finite": (changed(train_y=torch.full((30,), torch.nan)), "train_y with values that are not"),
    "classes of numbers": (
        changed(train_y=torch.zeros(30), test_y=torch.zeros(12), classes=3),
        "classes=3 and targets that are numbers",
    ),
    "too few labels": (changed(train_y=torch.zeros(3).long()), "30 objects in train_x and 3 labels in train_y"),
    "negative labels": (changed(train_y=torch.arange(30) % 3 - 1), "train_y with labels -1 to 1: use 0 to 2"),
    "labels beyond the classes": (changed(classes=2), "train_y with labels 0 to 2: use 0 to 1"),
    "one class": (changed(train_y=torch.zeros(30).long(), test_y=torch.zeros(12).long()), "1 classes: return two"),
    "half a class": (changed(classes=2.5), r"classes=2\.5: return a whole number"),
    "statistics of points": (changed(mean=(0.0,) * 5), "mean, which is for uint8 images"),
    "too few statistics": (changed(images, mean=(0.5,)), "a finite number for each of 2 channels"),
    "no spread": (changed(images, std=(0.5, 0)), "a finite number above 0 for each of 2 channels"),
    "it raises": (raises, r"fails \(KeyError: 'no such\\nfile'\): mend the function"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_does_not_fit_is_said_in_one_sentence(case):
    target, told = UNFIT[case]
    with pytest.raises(ConfigError, match=told) as error:
        load("custom", target=target)
    assert error.value.key == "target" and "\n" not in str(error.value)
    assert str(error.value).startswith("target=")


@pytest.mark.parametrize(
    "key, options, remedy",
    [
        ("target", {}, r"use package\.module:function"),
        ("target", {"target": 5}, r"use package\.module:function"),
        ("target", {"target": "varnet_test_nothing:make"}, "cannot be imported"),
        ("target", {"target": "math:pi"}, "is not a function"),
        ("options", {"target": points, "options": [3]}, "name: value"),
        ("target", {"target": points, "options": {"colour": 3}}, r"TypeError.* options \['colour'\]"),
        ("size", {"target": points, "size": 28}, "only for dataset=digits"),
        ("labels", {"target": points, "labels": "coarse"}, "use null or random"),
    ],
)
def test_wrong_options(key, options, remedy):
    with pytest.raises(ConfigError, match=remedy) as error:
        load("custom", **options)
    assert error.value.key == key and "\n" not in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_other_datasets_import_nothing(module, name):
    """A configuration that somebody else wrote names no code unless it is said to be custom."""
    with pytest.raises(ConfigError, match="only for dataset=custom") as error:
        load(name, target=f"{module}:make")
    assert error.value.key == "target" and module not in sys.modules


# in a run


def test_runs_with_a_users_data(module, tmp_path, unpictured):
    """They train; a folder alone never names the function; runs on other options are no ensemble."""
    target = f"{module}:make"
    options = (
        "dataset=custom", f"dataset.target={target}", "model=fc", "model.sizes=[8]", "model.width=1",
        "dataset.test_size=null",
    )  # fmt: skip
    chosen = [tiny(tmp_path / "runs", *options, f"dataset.options={{size: {size}}}") for size in (60, 61)]
    assert digest(chosen[0]) != digest(chosen[1])
    metrics = [run(cfg) for cfg in chosen]
    assert all(0 <= one["acc_k"] <= 100 for one in metrics)
    one, other = map(folder_of, chosen)
    sys.modules.pop(module)
    with pytest.raises(ConfigError, match=f"takes code from dataset.target={target}"):
        open_finished(one)
    assert module not in sys.modules
    targets = {"dataset.target": (target,)}
    assert open_finished(one, targets=targets).data.train_x.shape == (40, 5)
    with pytest.raises(ConfigError, match=r"dataset\.options {'size': 61} against {'size': 60}"):
        open_ensemble([one, other], targets=targets)


def test_errors_of_a_run_name_the_group(tmp_path):
    cfg = tiny(tmp_path, "dataset=custom", "model=fc")
    with pytest.raises(ConfigError, match=r"^dataset\.target=null is invalid: use package\.module:function") as error:
        load_data(cfg)
    assert error.value.key == "dataset.target"
