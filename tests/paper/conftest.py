from pathlib import Path

import pytest

from tests.conftest import PICTURE


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The folder of runs, below which the test is. Runs made by hand have no override of their own: composing an
    experiment takes longer than the tests, and is done once for all of them."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "outputs"


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are made and not rendered, which takes longest."""
    monkeypatch.setattr("varnet.base.plots.rendered", lambda figure, kind="png": PICTURE)
