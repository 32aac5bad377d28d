"""The wheel: what it carries, and that it works in a folder of the user's own, away from the checkout."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.composing import ROOT

SOURCES = ("varnet", "configs", "networks", "pyproject.toml", "setup.py", "README.md", "LICENSE")
SMALL = ("dataset.train_size=200", "dataset.test_size=50", "eval.elbo_samples=1")
MEASURED = ("eval.samples=2", "eval.elbo_samples=0", "eval.draws=2", "eval.angles=[]", "eval.fractions=[]")


def built(kind: str, source: Path, out: Path) -> Path:
    code = f"import sys; from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
    done = ran(sys.executable, "-c", code, str(out), cwd=source)
    return out / done.stdout.split()[-1]


def ran(*command: str, cwd: Path) -> subprocess.CompletedProcess:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VARNET"))}
    done = subprocess.run(command, cwd=cwd, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def checkout(folder: Path) -> Path:
    """A copy of what makes a wheel."""
    folder.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from the source distribution, so that both are tested."""
    folder = tmp_path_factory.mktemp("build")
    checkout(folder / "checkout")
    with tarfile.open(built("sdist", folder / "checkout", folder)) as archive:
        archive.extractall(folder, filter="data")
    return built("wheel", next(path for path in folder.glob("varnet-*") if path.is_dir()), folder)


def test_the_wheel_carries_modules_configs_and_the_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        entry = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        commands = archive.read(entry).decode().split()
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "varnet").rglob("*.py")}
    configs = {f"varnet/{path.relative_to(ROOT)}" for path in (ROOT / "configs").rglob("*.yaml")}
    small = [path.parent for path in (ROOT / "networks").glob("*/*.safetensors") if path.stat().st_size <= 500_000]
    networks = {f"varnet/{path.relative_to(ROOT)}" for folder in small for path in folder.iterdir()}
    assert networks and names == modules | configs | networks | {"varnet/py.typed"}
    assert commands == ["[console_scripts]", "varnet", "=", "varnet.cli:main"]


@pytest.mark.slow
def test_a_clone_does_not_hide_the_package_in_it(tmp_path):
    """An editable install, used in the folder that holds the clone, where its name is that of a folder, too."""
    clone, packages = checkout(tmp_path / "varnet"), tmp_path / "packages"
    packages.mkdir()
    with zipfile.ZipFile(built("editable", clone, packages)) as archive:
        archive.extractall(packages)
    code = f"import site; site.addsitedir({str(packages)!r}); import varnet; print(varnet.__file__)"
    done = ran(sys.executable, "-S", "-c", code, cwd=tmp_path)
    assert Path(done.stdout.strip()) == clone / "varnet" / "__init__.py"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The executables of an environment with the wheel; every other package is that of the tests' environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    executables = folder / ("Scripts" if os.name == "nt" else "bin")
    python = executables / "python"
    ran(sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel),
        cwd=folder)  # fmt: skip
    packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    (Path(packages) / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # its own .pth files are not read
    return executables


@pytest.mark.slow
def test_varnet_works_in_a_folder_of_the_users_own(installed, tmp_path):
    def varnet(*arguments: str) -> str:
        return ran(str(installed / "varnet"), *arguments, cwd=tmp_path).stdout

    place = ran(str(installed / "python"), "-c", "import varnet; print(varnet.__file__)", cwd=tmp_path).stdout
    assert Path(place.strip()).is_relative_to(installed.parent)
    assert varnet("--version").startswith("varnet ")
    assert "varnet train -m param=" in varnet("train", "--help")
    assert "varnet rl resume=" in varnet("rl", "--help")
    assert "zero-mean" in varnet("train", "experiment=demo", "schedule.epochs=2", *SMALL)
    (run,) = (tmp_path / "outputs" / "demo").glob("seed0-*")
    assert "finished already" in varnet("train", "experiment=demo", "schedule.epochs=2", *SMALL)
    assert "written to report" in varnet("report", "outputs")
    assert "| 1 |" in (tmp_path / "report" / "table.md").read_text()
    assert "written: " in varnet("evaluate", str(run), *MEASURED)
    assert json.loads((run / "evaluation.json").read_text())["run"]["name"] == "demo"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("joblib") is None, reason="joblib is not installed")
def test_a_sweep_started_as_varnet_has_processes(installed, tmp_path):
    sweep = ("-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "experiment=demo", "schedule.epochs=1", *SMALL)
    text = ran(str(installed / "varnet"), "train", *sweep, "seed=0,1", cwd=tmp_path).stdout
    assert "sweep: 2 of 2 runs are finished" in text
    assert len(list((tmp_path / "outputs" / "demo").glob("seed*/metrics.json"))) == 2
