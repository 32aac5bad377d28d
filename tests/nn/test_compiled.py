"""numba's cache on disk: damaged, emptied or gone, it is made anew."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

numba = pytest.importorskip("numba")


def doubled(x):
    return 2 * x


def garbage(folder: Path, ending: str) -> None:
    for path in folder.rglob(f"*{ending}"):
        path.write_bytes(os.urandom(50))


DAMAGE = {
    "index is garbage": lambda folder: garbage(folder, ".nbi"),
    "index is empty": lambda folder: [path.write_bytes(b"") for path in folder.rglob("*.nbi")],
    "data are garbage": lambda folder: garbage(folder, ".nbc"),
    "data are gone": lambda folder: [path.unlink() for path in folder.rglob("*.nbc")],
    "folder is gone": shutil.rmtree,
}


@pytest.mark.parametrize("moment", ["before", "while it is used"])
def test_a_damaged_cache_is_made_anew(tmp_path, monkeypatch, moment):
    from varnet.nn.philox import Compiled

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    assert Compiled(doubled)(np.float32(3)) == 6
    for name, damage in DAMAGE.items():
        if moment == "before":
            damage(tmp_path / "cache")
        function = Compiled(doubled)
        if moment != "before":
            damage(tmp_path / "cache")
        assert function(np.float32(3)) == 6, name
        again = Compiled(doubled)
        assert again(np.float32(3)) == 6 and not again.mended, name
        if moment == "before":
            assert list(tmp_path.glob("cache/*/*.nbc")), name


def test_what_is_wrong_with_the_call_is_raised():
    from varnet.nn.philox import Compiled

    with pytest.raises(Exception, match="Failed in nopython mode"):
        Compiled(doubled)(object())
