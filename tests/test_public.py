"""The names of `varnet` itself: there when asked for, and nothing loaded before."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import varnet

RUN = Path(__file__).parent / "golden" / "runs" / "finished"
LOOK = """
import json, sys
import varnet
before = [name for name in ("torch", "hydra", "omegaconf", "numba", "sklearn") if name in sys.modules]
told = dir(varnet)
loaded = {name: getattr(varnet, name).__name__ for name in varnet.__all__}
print(json.dumps([before, told, loaded]))
"""


def test_each_name_is_loaded_when_it_is_first_used():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, told, loaded = json.loads(done.stdout)
    assert before == []
    assert set(varnet.__all__) <= set(told)
    assert loaded == {name: name for name in varnet.__all__}


def test_the_names_that_are_loaded_are_those_that_are_listed():
    assert sorted(name for names in varnet.HOMES.values() for name in names) == sorted(varnet.__all__)
    with pytest.raises(AttributeError, match="'varnet' has no attribute 'nothing'"):
        varnet.nothing  # noqa: B018


def test_a_finished_run_is_opened_by_its_path(tmp_path):
    (folder,) = RUN.iterdir()
    shutil.copytree(folder, tmp_path / "run")
    by_text, by_path = varnet.open_run(str(tmp_path / "run")), varnet.open_run(tmp_path / "run")
    assert not any(module.training for module in by_text.model.modules())
    found = varnet.predict(by_text.model, by_text.data.loader("test", 50), "deterministic")
    again = varnet.predict(by_path.model, by_path.data.loader("test", 50), "deterministic")
    assert torch.equal(found.log_probs, again.log_probs) and len(found.y) == len(by_text.data.test_y)
    accuracy = 100 * float((found.log_probs.argmax(1) == found.y).float().mean())
    assert accuracy == pytest.approx(by_text.metrics["acc_det"])
