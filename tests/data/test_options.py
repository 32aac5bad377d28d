"""load(): names, labels, subsets, the generated datasets, the configs."""

import inspect
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from tests.data.tiny_data import install_tiny, tiny_arrays, write_files
from varnet.data import DATASETS, NAMES, load
from varnet.data.subset import balanced
from varnet.errors import ConfigError, DataError, shown

CONFIGS = Path(__file__).parents[2] / "configs" / "dataset"
PLACES = {"mnist": "mnist", "cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    """Tiny versions of the three fetched datasets, found through VARNET_DATA."""
    for name, place in PLACES.items():
        _, files = install_tiny(monkeypatch, name)
        write_files(tmp_path / place, files)
    monkeypatch.setenv("VARNET_DATA", str(tmp_path))


def counts(labels, classes):
    return torch.bincount(labels, minlength=classes)


@pytest.mark.parametrize("name", NAMES)
def test_every_config_loads(name):
    config = OmegaConf.load(CONFIGS / f"{name}.yaml")
    brought = config.pop("defaults", [])
    assert set(config) <= set(inspect.signature(load).parameters) | set(DATASETS[name].options)
    data = load(**config)
    assert data.name == name == config.name
    if brought:  # a likelihood for targets that are numbers
        assert data.classes == 0 and data.train_y.dtype == torch.float32 and data.train_y.shape[1] == data.targets
    else:
        assert data.train_y.max() < data.classes and data.train_y.dtype == torch.int64
    x, y = next(iter(data.loader("train", 16)))
    assert x.dtype == torch.float32 and x.shape == (16, *data.in_shape) and len(y) == 16


def test_there_is_a_config_for_every_dataset():
    assert sorted(path.stem for path in CONFIGS.glob("*.yaml")) == sorted(DATASETS)


def test_cifar100_labels():
    arrays = tiny_arrays("cifar100")
    fine, coarse = load("cifar100"), load("cifar100", labels="coarse")
    assert (fine.classes, coarse.classes) == (100, 20)
    assert fine.train_y.tolist() == arrays["train_y"][:, 1].tolist()
    assert coarse.test_y.tolist() == arrays["test_y"][:, 0].tolist()
    assert torch.equal(load("cifar100", labels="fine").train_y, fine.train_y)


@pytest.mark.parametrize("name", NAMES)
def test_random_labels_are_a_fixed_permutation_of_the_training_labels(name):
    true, random = load(name), load(name, labels="random")
    assert torch.equal(random.train_x, true.train_x) and torch.equal(random.test_y, true.test_y)
    assert not torch.equal(random.train_y, true.train_y)
    assert torch.equal(random.train_y.sort(0).values, true.train_y.sort(0).values)
    assert torch.equal(random.train_y, load(name, labels="random").train_y)
    if name != "toy":  # whose points depend on the seed as well
        assert not torch.equal(random.train_y, load(name, labels="random", seed=1).train_y)


def test_subsets_are_balanced_nested_and_fixed_by_the_seed():
    data = load("digits", train_size=203, test_size=55)
    assert sorted(counts(data.train_y, 10).tolist()) == [20] * 7 + [21] * 3
    assert sorted(counts(data.test_y, 10).tolist()) == [5] * 5 + [6] * 5
    assert torch.equal(data.train_x, load("digits", train_size=203).train_x)
    assert not torch.equal(data.train_x, load("digits", train_size=203, seed=1).train_x)
    labels = load("digits").train_y
    assert set(balanced(labels, 50, 0).tolist()) < set(balanced(labels, 203, 0).tolist())


def test_a_subset_keeps_images_with_their_labels():
    whole, part = load("digits"), load("digits", train_size=100)
    pairs = {(x.numpy().tobytes(), int(y)) for x, y in zip(whole.train_x, whole.train_y, strict=True)}
    assert all((x.numpy().tobytes(), int(y)) in pairs for x, y in zip(part.train_x, part.train_y, strict=True))
    assert part.train_x.is_contiguous(memory_format=torch.channels_last)


def test_a_subset_of_unequal_classes_is_as_equal_as_the_data_allow():
    labels = torch.tensor([0] * 3 + [1] * 10 + [2] * 10)
    assert counts(labels[balanced(labels, 15, 0)], 3).tolist() == [3, 6, 6]
    assert balanced(labels, 23, 0).tolist() == list(range(23))


@pytest.mark.parametrize("train_size", [None, 300])
def test_validation_is_balanced_and_disjoint_from_training(train_size):
    whole = load("digits")
    data = load("digits", validation_size=105, train_size=train_size)
    assert sorted(counts(data.validation_y, 10).tolist()) == [10] * 5 + [11] * 5
    assert len(data.train_y) == (train_size or 1297 - 105)
    train, held_out, all_ = (
        [x.numpy().tobytes() for x in part] for part in (data.train_x, data.validation_x, whole.train_x)
    )
    assert len(set(all_)) == 1297, "no image occurs twice, so the sets below tell images apart"
    assert not set(train) & set(held_out) and set(train) | set(held_out) <= set(all_)
    assert torch.equal(data.test_x, whole.test_x)
    assert torch.equal(data.validation_x, load("digits", validation_size=105).validation_x)


@pytest.mark.parametrize("size, channels", [(28, 1), (32, 3), (32, 1)])
def test_digits(size, channels):
    data = load("digits", size=size, channels=channels)
    assert data.train_x.shape == (1297, channels, size, size) and len(data.test_y) == 500
    assert counts(data.test_y, 10).tolist() == [50] * 10
    assert data.train_x.dtype == torch.uint8 and data.train_x.min() == 0 and data.train_x.max() > 240
    assert all(torch.equal(data.train_x[:, 0], data.train_x[:, c]) for c in range(channels))
    assert torch.equal(data.test_x, load("digits", size=size, channels=channels, seed=5).test_x), "the split is fixed"


def test_toy_has_the_papers_means_and_unit_variance():
    data = load("toy", seed=3)
    assert data.train_x.shape == (2000, 2) and counts(data.test_y, 4).tolist() == [500] * 4
    for label, mean in enumerate([(3, 3), (3, 10), (10, 3), (10, 10)]):
        points = data.train_x[data.train_y == label]
        # z = 5: the mean of 500 has standard error 500^-1/2, the variance (2/499)^1/2
        assert torch.allclose(points.mean(0), torch.tensor(mean).float(), atol=5 / 500**0.5, rtol=0)
        assert torch.allclose(points.var(0), torch.ones(2), atol=5 * (2 / 499) ** 0.5, rtol=0)
    assert torch.equal(data.train_x, load("toy", seed=3).train_x)
    assert not torch.equal(data.train_x, load("toy").train_x) and not torch.equal(data.train_x, data.test_x)


BAD = [
    ("name", {"name": "imagenet"}, "mnist"),
    ("labels", {"name": "mnist", "labels": "coarse"}, "dataset=mnist.*random"),
    ("labels", {"name": "cifar100", "labels": "rough"}, "fine"),
    ("size", {"name": "mnist", "size": 32}, "only for dataset=digits.* use size=null"),
    ("colour", {"name": "mnist", "colour": 3}, "not known for dataset=mnist"),
    ("name", {"name": ["mnist"]}, "mnist"),
    ("size", {"name": "digits", "size": 29}, "one of 28, 32"),
    ("channels", {"name": "digits", "channels": 2}, "one of 1, 3"),
    ("augment", {"name": "toy", "augment": True}, "augment=false"),
    ("train_size", {"name": "digits", "train_size": 1298}, "up to 1297"),
    ("train_size", {"name": "digits", "train_size": 0}, "up to 1297"),
    ("train_size", {"name": "digits", "train_size": 0.5}, "whole number"),
    ("train_size", {"name": "digits", "train_size": True}, "whole number"),
    ("test_size", {"name": "digits", "test_size": 501}, "up to 500"),
    ("validation_size", {"name": "digits", "validation_size": 1297}, "up to 1296"),
    (
        "train_size",
        {"name": "digits", "validation_size": 1000, "train_size": 298},
        "validation_size=1000.*up to 297",
    ),
    ("seed", {"name": "digits", "seed": "one"}, "whole number"),
    ("seed", {"name": "toy", "seed": -1}, "from 0"),
]


@pytest.mark.parametrize("key, options, remedy", BAD, ids=[str(options) for _, options, _ in BAD])
def test_bad_options_get_one_sentence(key, options, remedy):
    with pytest.raises(ConfigError, match=remedy) as error:
        load(**options)
    assert error.value.key == key and shown(options[key]) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_split_that_is_not_there():
    with pytest.raises(DataError, match=r"split=validation .*validation_size=N"):
        load("digits").loader("validation")
    with pytest.raises(DataError, match="split=tset"):
        load("digits").loader("tset")
    assert len(load("digits", validation_size=20).loader("validation", 10)) == 2
