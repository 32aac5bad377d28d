"""Sweeps: what is wrong is found first, a failure does not stop the others, the second start does what is left."""

import contextlib
import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf

from tests.composing import ROOT, composed
from tests.nn.refused import assert_refused
from tests.processes import HANG, wait_for
from varnet.cli.train import command_line
from varnet.errors import ConfigError
from varnet.launch import jobs, sweep
from varnet.runs.folder import folder_of
from varnet.runs.overrides import explain

CONFIGS = ROOT / "configs"
FAST = (
    "model=lenet300", "model.width=0.1", "dataset=digits", "dataset.test_size=20", "schedule.batch_size=100",
    "eval.samples=2", "eval.elbo_samples=1", "eval.every=100", "checkpoint_every=1",
)  # fmt: skip


def plugin(name: str) -> pytest.MarkDecorator:
    try:
        missing = importlib.util.find_spec(f"hydra_plugins.{name}") is None
    except ModuleNotFoundError:
        missing = True
    return pytest.mark.skipif(missing, reason=f"{name} is not installed: pip install 'varnet[sweep]'")


def train(*arguments: str) -> subprocess.CompletedProcess:
    process = start(*arguments)
    output, errors = process.communicate(timeout=HANG)
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *arguments], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@contextlib.contextmanager
def occupied(folder: Path):
    """A run's folder, locked as by another process that writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


# ---- before


def test_a_plan_has_every_job_and_its_folder(tmp_path):
    planned = sweep.plan(CONFIGS, [*FAST, f"out_dir={tmp_path}", "param=layer,neuron", "seed=range(3)"])
    assert len(planned.jobs) == 6 and len({job.folder for job in planned.jobs}) == 6
    cfg = composed(*FAST, f"out_dir={tmp_path}", "param=neuron", "seed=1")
    assert planned.jobs[4].folder == folder_of(cfg) and planned.jobs[4].overrides[-2:] == ["param=neuron", "seed=1"]
    assert planned.folder.parent == tmp_path / ".sweeps" and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("choices", ["param=glob(*)", "param=choice(layer,neuron)"])
def test_sweeps_in_hydras_words(choices):
    assert len(sweep.plan(CONFIGS, [choices]).jobs) >= 2


UNKNOWN = {  # refused by Hydra, whose message is told in one sentence
    ("param=layer,layr",): "did you mean param=layer",
    ("seed=0,1", "modle=lenet5"): "modle=lenet5: there is no key modle",
    ("seed=0,1", "hydra/launcher=jobli"): "hydra/launcher=jobli is not known",
    ("seed=interval(0,1)",): "does not support sweep type",
}


@pytest.mark.parametrize("overrides", UNKNOWN)
def test_an_unknown_job_is_found_before_any_runs(overrides, tmp_path):
    with pytest.raises(HydraException) as caught:
        sweep.plan(CONFIGS, [f"out_dir={tmp_path}", *overrides])
    said = explain(caught.value, list(overrides))
    assert UNKNOWN[overrides] in said and "\n" not in said and list(tmp_path.iterdir()) == []


def test_a_wrong_job_is_found_before_any_runs(tmp_path):
    planned = ["seed=0,x", f"out_dir={tmp_path}"]
    assert_refused(lambda: sweep.plan(CONFIGS, planned), "seed", "seed=x", "a whole number from 0")
    assert list(tmp_path.iterdir()) == []


@plugin("hydra_optuna_sweeper")
def test_every_choice_of_a_search_is_checked():
    search = ["hydra/sweeper=optuna", "schedule.lr=interval(0.001,0.01)", "seed=0"]
    assert sweep.plan(CONFIGS, [*search, "param=choice(layer,neuron)"]).jobs == []
    with pytest.raises(HydraException, match="layr"):
        sweep.plan(CONFIGS, [*search, "param=choice(layer,neuron,layr)"])


def test_a_plugin_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(
        ConfigError, match=r"hydra/launcher=ray needs hydra_ray_launcher: pip install 'varnet\[sweep\]'"
    ):
        sweep.plan(CONFIGS, ["hydra/launcher=ray", "seed=0,1"])


PLUGINS = {
    "joblib": "hydra_joblib_launcher", "submitit_local": "hydra_submitit_launcher",
    "submitit_slurm": "hydra_submitit_launcher", "ray": "hydra_ray_launcher",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=plugin(package)) for name, package in PLUGINS.items()])
def test_every_launcher_composes(name):
    assert {path.stem for path in (CONFIGS / "hydra/launcher").glob("*.yaml")} == PLUGINS.keys()
    assert sweep.plan(CONFIGS, [f"hydra/launcher={name}", "seed=0,1"]).jobs[1].overrides == ["seed=1"]


# ---- a job


@pytest.mark.parametrize(
    "launcher, threads",
    [({"n_jobs": 2}, 4), ({"n_jobs": -1}, 1), ({"n_jobs": -2}, 1), ({"n_jobs": 16}, 1), ({"n_jobs": 1}, 8),
     ({"cpus_per_task": 3}, 3), ({"ray": {"remote": {"num_cpus": 2}}}, 2), ({}, None)],
)  # fmt: skip
def test_threads_are_divided(launcher, threads):
    assert jobs.threads_for(OmegaConf.create(launcher), 8) == threads


def test_gpus_are_taken_in_turn():
    joblib = OmegaConf.create({"n_jobs": 4})
    assert [jobs.device_for("auto", joblib, job, 4) for job in range(5)] == [f"cuda:{i}" for i in (0, 1, 2, 3, 0)]
    assert jobs.device_for("cpu", joblib, 1, 4) == "cpu" and jobs.device_for("auto", joblib, 1, 1) == "auto"
    assert jobs.device_for("auto", OmegaConf.create({"cpus_per_task": 1}), 1, 4) == "auto"


# ---- after


def test_the_summary(tmp_path):
    done, silent, failed, missing = (tmp_path / name for name in ("done", "silent", "failed", "missing"))
    done.mkdir()
    (done / "metrics.json").write_text('{"acc_k": 1.0, "elbo": -1.0}')
    planned = [sweep.Job(["a=1", f"seed={i}"], folder) for i, folder in enumerate((done, silent, failed, missing))]
    noted = {0: sweep.Job(["a=1", "seed=0"], done, "too early"), 1: sweep.Job(["a=1", "seed=1"], silent)}
    noted |= {2: sweep.Job(["a=1", "seed=2"], failed, "no room")}
    told = sweep.tell(planned, noted, "PoolError: broken", ["-m", "a=1", "x=f(1, 2)"])
    assert told.unfinished == 3
    assert told.text.splitlines() == [
        "sweep: 1 of 4 runs are finished",
        "  the launcher broke: PoolError: broken",
        f"  #1 seed=1: ended without a word: killed, or out of memory ({silent})",
        f"  #2 seed=2: no room ({failed})",
        f"  #3 seed=3: was not started ({missing})",
        "go on with the same command (finished runs are skipped, interrupted ones go on):",
        "  python train.py -m a=1 'x=f(1, 2)'",
    ]
    assert sweep.tell(planned[:1], {}, None, []).text == "sweep: 1 of 1 runs are finished"


def test_notes_that_cannot_be_read_are_left_out(tmp_path):
    jobs.leave(tmp_path / "job3.json", {"overrides": ["seed=3"], "folder": "x", "reason": None})
    (tmp_path / "job4.json").write_text("{")
    assert sweep.notes(tmp_path) == {3: sweep.Job(["seed=3"], Path("x"))}


@pytest.mark.usefixtures("unpictured")
def test_one_failure_does_not_stop_the_others_and_the_second_start_does_what_is_left(tmp_path, monkeypatch, capsys):
    arguments = ("-m", *FAST, "schedule.epochs=1", "threads=1", "seed=0,1", f"out_dir={tmp_path}")
    folders = [folder_of(composed(*arguments[1:-2], f"seed={seed}", arguments[-1])) for seed in range(2)]
    with occupied(folders[0]):
        done = train(*arguments)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "sweep: 1 of 2 runs are finished" in done.stderr
    assert f"#0 seed=0: {folders[0]} is being written by another process" in done.stderr
    assert [(folder / "metrics.json").exists() for folder in folders] == [False, True]
    before = metrics_time(folders[1])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # which a sweep sets
    monkeypatch.setattr(sys, "argv", ["train.py"])
    with pytest.raises(SystemExit) as ended:
        command_line([*arguments, "hydra/job_logging=none", "hydra/hydra_logging=none"])
    assert ended.value.code == 0 and "sweep: 2 of 2 runs are finished" in capsys.readouterr().out
    assert metrics_time(folders[1]) == before and (folders[0] / "metrics.json").exists()
    planned = sweep.plan(CONFIGS, list(arguments[1:]))
    assert sweep.carry_out(planned, lambda: pytest.fail("ran again"), []) == 0


def metrics_time(folder: Path) -> int | None:
    path = folder / "metrics.json"
    return path.stat().st_mtime_ns if path.exists() else None


@pytest.mark.slow
def test_a_signal_ends_the_sweep_with_its_summary(tmp_path):
    process = start("-m", *FAST, "schedule.epochs=5000", "threads=1", "seed=0,1", f"out_dir={tmp_path}")
    wait_for(lambda: list(tmp_path.glob("*/*/checkpoint.pt")), process)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=HANG)[1]
    assert process.returncode == 143 and "#0 seed=0: stopped by SIGTERM; saved" in errors.replace("\n", "")
    assert "#1 seed=1: was not started" in errors


@pytest.mark.slow
@plugin("hydra_ray_launcher")
def test_a_signal_ends_a_sweep_by_ray_with_its_summary(tmp_path):
    ray = ("hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=1")
    process = start("-m", *FAST, "schedule.epochs=500000", "seed=0,1", f"out_dir={tmp_path}", *ray)
    wait_for(lambda: list(tmp_path.glob("*/*/checkpoint.pt")), process)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=HANG)[1]
    assert process.returncode == 143, errors
    assert "sweep: 0 of 2 runs are finished" in errors and "go on with the same command" in errors


@pytest.mark.slow
@plugin("hydra_joblib_launcher")
def test_the_jobs_of_a_sweep_that_is_killed_end_and_the_same_command_takes_over(tmp_path):
    options = (*FAST, "schedule.epochs=600", "seed=0,1", f"out_dir={tmp_path}")
    arguments = ("-m", *options, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    process = start(*arguments)
    wait_for(lambda: len(list(tmp_path.glob("*/*/checkpoint.pt"))) == 2, process)
    process.kill()
    process.communicate()
    again = train(*arguments)
    assert again.returncode == 0 and "sweep: 2 of 2 runs are finished" in again.stdout, again.stderr
    assert again.stdout.count("going on after epoch") == 2


# ---- launchers: four jobs, one of which cannot begin and one of which is killed

LAUNCHERS = [
    pytest.param(("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"), marks=plugin("hydra_joblib_launcher")),
    pytest.param(("hydra/launcher=submitit_local",), marks=plugin("hydra_submitit_launcher")),
    pytest.param(("hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=2"), marks=plugin("hydra_ray_launcher")),
]


def writer_of(folder: Path) -> int | None:
    """The process that has the lock of a run."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(link) == str(folder / ".lock") and int(link.parts[2]) != os.getpid():
                return int(link.parts[2])
    return None


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_survives_and_the_second_start_does_what_is_left(launcher, tmp_path):
    arguments = ("-m", *FAST, "schedule.epochs=400", "seed=0,1,2,3", f"out_dir={tmp_path}", *launcher)
    folders = [folder_of(composed(*FAST, "schedule.epochs=400", f"seed={s}", f"out_dir={tmp_path}")) for s in range(4)]
    with occupied(folders[0]):
        process = start(*arguments)
        wait_for(lambda: (folders[2] / "checkpoint.pt").exists(), process)
        os.kill(writer_of(folders[2]), signal.SIGKILL)
        errors = process.communicate(timeout=HANG)[1]
    assert process.returncode == 1, errors
    assert f"#0 seed=0: {folders[0]} is being written by another process" in errors
    assert "runs are finished" in errors and f"python train.py -m {FAST[0]}" in errors
    before = {folder: metrics_time(folder) for folder in folders if metrics_time(folder)}
    if launcher[0] != "hydra/launcher=joblib":  # there a process that is killed takes the others with it
        assert {folders[1], folders[3]} <= before.keys(), errors
    again = train(*arguments)
    assert again.returncode == 0 and "sweep: 4 of 4 runs are finished" in again.stdout, again.stderr
    assert {folder: metrics_time(folder) for folder in before} == before
    assert all(len((folder / "history.jsonl").read_text().splitlines()) == 400 for folder in folders)


@pytest.mark.slow
@plugin("hydra_submitit_launcher")
def test_a_preempted_job_is_queued_again_and_goes_on(tmp_path):
    options = (*FAST, "schedule.epochs=400", f"out_dir={tmp_path}")
    folder = folder_of(composed(*options, "seed=1"))
    process = start("-m", *options, "seed=1", "hydra/launcher=submitit_local")
    wait_for(lambda: (folder / "checkpoint.pt").exists(), process)
    first = writer_of(folder)
    os.kill(first, signal.SIGTERM)  # comes with a preemption: the run is saved and goes on
    os.kill(first, signal.SIGUSR2)
    output = process.communicate(timeout=HANG)[0]
    assert process.returncode == 0 and "sweep: 1 of 1 runs are finished" in output
    printed = "".join(path.read_text() for path in tmp_path.glob(".sweeps/*/submitit/*/*.out"))
    assert "going on after epoch" in printed and "Requeued job" in printed
    assert json.loads((folder / "metrics.json").read_text())["epochs"] == 400


@pytest.mark.slow
@plugin("hydra_submitit_launcher")
def test_slurm_jobs_are_submitted_requeued_and_waited_for(tmp_path, monkeypatch):
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sbatch", "srun", "scontrol", "sacct"):
        (commands / name).symlink_to(ROOT / "tests/launch/fake_slurm.py")
    monkeypatch.setenv("PATH", f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(tmp_path))
    options = (*FAST, "schedule.epochs=400", f"out_dir={tmp_path / 'out'}")
    folders = [folder_of(composed(*options, f"seed={seed}")) for seed in range(2)]
    slurm = ("hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpu", "hydra.launcher.cpus_per_task=1")
    process = start("-m", *options, "seed=0,1", *slurm, "+hydra.launcher.additional_parameters.mail-type=FAIL")
    wait_for(lambda: (folders[1] / "checkpoint.pt").exists(), process)
    os.kill(writer_of(folders[1]), signal.SIGUSR2)
    output, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0 and "sweep: 2 of 2 runs are finished" in output, errors
    (script,) = tmp_path.glob("out/.sweeps/*/submitit/*/*.sh")
    asked = (
        "partition=gpu",
        "gpus-per-node=1",
        "cpus-per-task=1",
        "time=240",
        "requeue",
        "mail-type=FAIL",
        "array=0-1",
    )
    for line in asked:
        assert f"#SBATCH --{line}" in script.read_text()
    printed = "".join(path.read_text() for path in tmp_path.glob("out/.sweeps/*/submitit/*/*_1_0_log.out"))
    assert "Requeued job 77_1" in printed and "going on after epoch" in printed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the Optuna that the sweeper needs, about SQLAlchemy 2
@plugin("hydra_optuna_sweeper")
def test_an_optuna_study_is_continued_and_not_poisoned(tmp_path):
    import optuna

    search = (
        "-m", *FAST, "schedule.epochs=1", "threads=1", f"out_dir={tmp_path}", "hydra/sweeper=optuna",
        "schedule.lr=tag(log,interval(1e-4,1e-2))", "hydra.sweeper.study_name=search",
    )  # fmt: skip
    assert "sweep: 2 of 2 runs are finished" in train(*search, "hydra.sweeper.n_trials=2").stdout
    wrong = train(*search, "hydra.sweeper.n_trials=1", "schedule.batch_size=5000")
    assert wrong.returncode == 1 and "schedule.batch_size=5000 is larger than" in wrong.stderr
    assert train(*search, "hydra.sweeper.n_trials=1").returncode == 0
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{tmp_path}/optuna.sqlite3")
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE", "FAIL", "COMPLETE"]
    assert study.direction.name == "MAXIMIZE"
