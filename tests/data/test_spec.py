"""A stranger's dataset: one file in varnet/data/sets/ is enough to load it by name, with options of its own."""

import sys

import pytest
import torch

from varnet.data import DATASETS, Generated, load, own_options, register, sets
from varnet.errors import ConfigError

MOONS = '''
"""Two moons."""

import torch

from varnet.base.checks import number
from varnet.data.spec import Generated, register


def moons(seed, noise=0.1):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(100) % 2
    angle = torch.rand(100, generator=generator) * torch.pi
    x = torch.stack([angle.cos() + y, angle.sin() * (1 - 2 * y)], 1)
    x = x + noise * torch.randn(x.shape, generator=generator)
    return {"train_x": x[:80], "train_y": y[:80], "test_x": x[80:], "test_y": y[80:]}


register(Generated(name="moons", classes=2, make=moons, source="generated", options={"noise": number(0)}))
'''


@pytest.fixture
def moons(tmp_path, monkeypatch):
    """The file is beside those of varnet, as if it had been put there."""
    (tmp_path / "moons.py").write_text(MOONS)
    (tmp_path / "_shared.py").write_text("raise AssertionError('a shared part is no dataset')")
    monkeypatch.setattr(sets, "__path__", [*sets.__path__, str(tmp_path)])
    before = dict(DATASETS)
    sets.register_all()
    yield
    DATASETS.clear()
    DATASETS.update(before)
    del sys.modules["varnet.data.sets.moons"]


def test_one_file_is_enough(moons):
    data = load("moons", noise=0.0, train_size=40, labels="random", seed=3)
    assert (data.name, data.classes, data.in_shape, len(data.train_y)) == ("moons", 2, (2,), 40)
    distance = (data.test_x - torch.stack([data.test_y, torch.zeros(20)], 1)).norm(dim=1)
    assert torch.allclose(distance, torch.ones(20)), "without noise the points lie on their circles"
    assert "noise" in own_options()


@pytest.mark.parametrize(
    "key, options, remedy",
    [
        ("noise", {"name": "moons", "noise": -1}, "a finite number from 0"),
        ("noise", {"name": "toy", "noise": 0.5}, "only for dataset=moons, not for dataset=toy: use noise=null"),
        ("name", {"name": "sun"}, "choose one of .*, moons"),
    ],
)
def test_its_errors_are_those_of_all(moons, key, options, remedy):
    with pytest.raises(ConfigError, match=remedy) as error:
        load(**options)
    assert error.value.key == key


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="toy is registered already"):
        register(Generated(name="toy", classes=2, make=dict, source=""))
