"""The library stays light: what its rooms load when they are imported, told by sys.modules in one fresh process."""

import importlib.util
import json
import subprocess
import sys

import pytest

STEPS = {  # what is imported one after the other -> how; all that an earlier step loads is there for the later ones
    "torch": "import torch",
    "varnet": "import varnet",
    "nn": "from varnet.nn import layers, modes, convert, objective, theorem1, networks",
    "data": "from varnet.data import load, Loader",
    "evaluation": "from varnet.evaluation import predict, weight_samples; import varnet; varnet.evaluation.predict",
    "compress": "from varnet.compress import compacting, csr, packed, units, onnx",
    "attack": "from varnet.attack import Attack, run, experiment",
    "names": "import varnet; [getattr(varnet, n) for n in varnet.__all__ if n not in ('open_run', 'load')]",  # of runs
    "linear": "from varnet.linear import VDRegressor",
}
HEAVY = ("hydra", "omegaconf", "tensorboard", "torch.utils.tensorboard", "matplotlib", "numba", "rich", "torchvision")
MACHINERY = tuple(f"varnet.{room}" for room in ("train", "runs", "launch", "report", "paper", "bench", "cli", "rl"))
LIBRARY = [step for step in STEPS if step not in ("torch", "varnet")]
SCRIPT = """
import json, sys
loaded, steps = {}, json.loads(sys.argv[1])
for name, line in steps.items():
    before = set(sys.modules)
    exec(line)
    loaded[name] = sorted(set(sys.modules) - before)
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """The modules that each step adds. One process for all: what is missing in the end was loaded by none of them."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, json.dumps(STEPS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of(packages: tuple[str, ...], modules: list[str]) -> list[str]:
    return [m for m in modules if any(m == package or m.startswith(f"{package}.") for package in packages)]


def test_varnet_itself_loads_nothing_that_torch_has_not(loaded):
    """It costs no more than torch, as long as its names are loaded when they are first used."""
    assert loaded["varnet"] == ["varnet"]


@pytest.mark.parametrize("step", LIBRARY)
def test_a_room_of_the_library_loads_no_machinery(step, loaded):
    allowed = () if step == "linear" else ("sklearn",)  # the linear models are estimators of scikit-learn
    assert not of((*HEAVY, *MACHINERY, *allowed), loaded[step])


@pytest.mark.parametrize("name", [*HEAVY, "sklearn", *MACHINERY])
def test_what_is_looked_for_has_that_name(name):
    """A module that is called something else would never be found."""
    if name == "numba":
        pytest.importorskip(name)  # not on every Python
    assert importlib.util.find_spec(name) is not None


def test_a_module_that_is_loaded_is_found(loaded):
    assert of(("sklearn",), loaded["linear"]) and of(("varnet.evaluation",), loaded["evaluation"])
