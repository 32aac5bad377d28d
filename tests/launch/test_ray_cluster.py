"""A Ray that a sweep starts asks for a token; one that was there keeps its own authentication."""

import atexit
import os
import re
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.composing import ROOT
from tests.launch.test_sweep import CONFIGS, FAST, plugin
from tests.processes import HANG, wait_for
from varnet.launch import ray_cluster, sweep
from varnet.launch.ending import leave

NAMES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ADDRESS")


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def environment() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in NAMES}


@plugin("hydra_ray_launcher")
@pytest.mark.parametrize("mode", [None, "disabled", "token"])
@pytest.mark.parametrize("token", [None, "the user's own"])
def test_a_cluster_of_its_own_has_a_token_whatever_is_set(monkeypatch, mode, token):
    for name, value in (("RAY_AUTH_MODE", mode), ("RAY_AUTH_TOKEN", token)):
        if value is not None:
            monkeypatch.setenv(name, value)
    before, tokens = environment(), []
    for _ in range(2):
        with ray_cluster.secured(ray_cluster.OWN):
            assert os.environ["RAY_AUTH_MODE"] == "token"
            tokens.append(os.environ["RAY_AUTH_TOKEN"])
        assert environment() == before
    assert set(tokens) == {token} if token else len(set(tokens)) == 2 and min(map(len, tokens)) == 64


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "ray://head:10001", None])
def test_a_cluster_that_is_there_keeps_its_own_authentication(monkeypatch, address):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    before = environment()
    with ray_cluster.secured(address):
        assert environment() == before


@pytest.mark.parametrize(
    "address, variable, expected",
    [(None, None, "local"), ("local", None, "local"), ("auto", None, "auto"), ("local", "h:1", "local"),
     (None, "h:1", "h:1"), ("auto", "h:1", "h:1"), ("auto", "local", "local"), ("ray://h:1", "g:2", "ray://h:1")],
)  # fmt: skip
def test_the_address_is_the_one_that_ray_would_use(monkeypatch, address, variable, expected):
    if variable:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    assert ray_cluster.resolved(address) == expected


@plugin("hydra_ray_launcher")
def test_the_plan_of_a_sweep_knows_its_cluster():
    options = ["hydra/launcher=ray", "seed=0,1"]
    assert sweep.plan(CONFIGS, options).ray == "local"
    assert sweep.plan(CONFIGS, [*options, "hydra.launcher.ray.init.address=ray://h:1"]).ray == "ray://h:1"
    assert sweep.plan(CONFIGS, ["seed=0,1"]).ray is None


KNOCK = """
import ray, sys
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
print("let in", len(ray.nodes()))
"""


def server_of(process: subprocess.Popen) -> tuple[str, dict[str, str]] | None:
    """Address and environment of the Ray that a sweep has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            arguments = (folder / "cmdline").read_bytes().decode()
            variables = (folder / "environ").read_bytes().decode()
        except (OSError, ValueError):
            continue
        if parent == process.pid and (found := re.search(r"--gcs-address=([^\0]+)", arguments)):
            return found[1], dict(v.split("=", 1) for v in variables.split("\0") if "=" in v)
    return None


@pytest.mark.slow
@plugin("hydra_ray_launcher")
def test_nobody_without_the_token_is_let_in(tmp_path, monkeypatch):
    """RAY_AUTH_MODE=disabled of the user's is no reason to listen to everybody."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    process = subprocess.Popen(
        [sys.executable, "train.py", "-m", *FAST, "schedule.epochs=100000", "seed=0", "threads=1",
         f"out_dir={tmp_path}", "hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=1"],
        cwd=ROOT, env=os.environ | {"RAY_AUTH_MODE": "disabled"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: list(tmp_path.glob("*/*/checkpoint.pt")), process)
        address, variables = server_of(process)
        own = {name: variables[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
        told = {}
        for who, given in {"owner": own, "nobody": {"RAY_AUTH_MODE": "disabled"},
                           "guesser": own | {"RAY_AUTH_TOKEN": "0" * 64}}.items():  # fmt: skip
            knock = [sys.executable, "-c", KNOCK, address]
            done = subprocess.run(knock, env=os.environ | given, capture_output=True, text=True, timeout=HANG)
            told[who] = "let in" in done.stdout
        assert told == {"owner": True, "nobody": False, "guesser": False}
        assert not (tmp_path / "home/.ray").exists()  # nothing was written for others to find
    finally:
        process.terminate()
        process.wait(timeout=HANG)


class Ray(types.ModuleType):
    """As far as a sweep uses it: it takes SIGTERM for itself, and is shut down."""

    def __init__(self):
        super().__init__("ray")
        self.shut_down = 0

    def init(self, **_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def get(self, _: object) -> None:
        raise OSError("its process died")

    def shutdown(self) -> None:
        self.shut_down += 1


def test_sigterm_stays_with_the_sweep_and_ray_is_gone_before_its_end(monkeypatch):
    ray = Ray()
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    with pytest.raises(SystemExit) as ended, sweep._ending([]), sweep._patient("hydra_plugins.hydra_ray_launcher.X"):
        ray.init(address="local")
        assert "its process died" in str(ray.get(1)._return_value)
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 143 and ray.shut_down == 1
    with pytest.raises(OSError, match="its process died"):
        ray.get(1)
    os.environ.pop("RAY_USAGE_STATS_ENABLED")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # has threads, which the child does without
def test_the_exit_code_is_that_of_the_signal_whatever_a_library_does_at_the_end():
    child = os.fork()
    if child == 0:
        atexit.register(os.abort)
        leave(143)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 143
