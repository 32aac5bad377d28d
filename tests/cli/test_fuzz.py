"""Whatever is typed: exit 0 or one sentence, and nothing is waited for. The cases are the same in every run."""

import contextlib
import functools
import importlib
import io
import shutil
import sys
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from tests import fuzzing
from tests.composing import tiny
from varnet import cli
from varnet.cli import publish
from varnet.data import vision
from varnet.errors import ConfigError, DataError
from varnet.launch.ending import sentence
from varnet.runs.build import build_model, load_data
from varnet.runs.folder import folder_of
from varnet.runs.meaning import check_new
from varnet.runs.overrides import put

hypothesis = pytest.importorskip("hypothesis", reason="pip install 'varnet[dev]'")

SMALL = ("model=fc", "model.sizes=[3]")
BASES = (  # that a value is set in
    (*SMALL, "param=layer", "prior=loguniform"),
    (*SMALL, "param=additive", "prior=student"),
    (*SMALL, "param=zero_mean", "prior=none"),
    (*SMALL, "param=deterministic", "prior=gaussian"),
)
FEW = {  # arguments that come before those of a case, so that what is accepted is done in no time
    "train": (
        "model=fc", "model.sizes=[3]", "dataset=digits", "dataset.train_size=40", "dataset.test_size=20", "threads=1",
        "schedule.epochs=1", "schedule.batch_size=20", "schedule.warmup=0", "eval.samples=2", "eval.elbo_samples=2",
    ),
    "rl": ("schedule.episodes=1", "env.max_steps=5", "policy.hidden=4"),
    "evaluate": (
        "run", "out=numbers", "eval.samples=2", "eval.elbo_samples=1", "eval.draws=2", "eval.angles=[0]",
        "eval.fractions=[0.5]", "threads=1",
    ),
    "attack": ("run", "out=rates", "iterations=1", "samples=2", "images=2", "candidates=4", "eot=0", "threads=1"),
    "compress": ("run", "out=small", "repeats=0"),
    "reproduce": ("fig5", "run=false"),
}  # fmt: skip
WITHOUT = ("compile", "jobs", "seeds")  # of what is really run: what takes long for a good reason


def settings(examples: int) -> "hypothesis.settings":
    phases = [phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.explain]  # which takes minutes
    return hypothesis.settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, phases=phases,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets that are not here are not fetched."""

    def no_network(*_: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(vision, "download", no_network)
    monkeypatch.setattr(shutil, "which", lambda _: None)


# ---- the configuration of train.py alone, without Hydra's grammar and without training


@functools.cache
def base(number: int) -> DictConfig:
    return tiny(Path("out"), *BASES[number])


def configured(choose: fuzzing.Choose) -> tuple[int, list[str]]:
    keys = [key for key in fuzzing.TRAIN if "/" not in key and not key.startswith(("hydra", "experiment"))]
    values = [fuzzing.override(choose, keys, ("",)) for _ in range(choose((1, 1, 1, 2)))]
    return choose(range(len(BASES))), values


def test_a_configuration_is_taken_or_refused_in_a_sentence(monkeypatch, tmp_path):
    offline(monkeypatch)
    monkeypatch.chdir(tmp_path)
    taken = []

    @settings(200)
    @hypothesis.given(fuzzing.by_hypothesis(configured))
    def look(case: tuple[int, list[str]]) -> None:
        number, values = case
        try:
            cfg = base(number).copy()
            OmegaConf.set_struct(cfg, False)
            for value in values:
                put(cfg, value)
            check_new(cfg)
            folder_of(cfg)
            build_model(cfg, load_data(cfg))
            taken.append(values)
        except (ConfigError, DataError) as error:
            said = sentence(error)
            assert 20 < len(said) < 2000 and said.isprintable(), said

    look()
    assert 20 < len(taken) < 150, "neither all nor nothing is refused"
    assert list(tmp_path.iterdir()) == []


# ---- whole commands, in this process


def ended(case: fuzzing.Case, root: Path) -> tuple[int, str]:
    """Exit code and stderr of a command with these arguments."""
    said = io.StringIO()
    arguments = [*FEW.get(case.command, ()), *case.arguments]
    with (
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(io.StringIO()),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", ["/usr/bin/varnet", case.command, *arguments])
        try:
            if case.command == "publish":
                return publish.main(arguments, root), said.getvalue()
            cli.main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None), said.getvalue()
    return 0, said.getvalue()


def assert_ended_well(case: fuzzing.Case, root: Path) -> int:
    code, said = ended(case, root)
    lines = [line for line in said.splitlines() if line.strip()]
    assert code in {0, 1, 2, 3, 4} and len(lines) <= 1 + (code == 0), (code, said)
    assert code == 0 or "error: " in lines[-1] or case.command in ("fetch", "reproduce"), said
    assert "Traceback" not in said and all(line.isprintable() for line in lines), said
    return code


@pytest.fixture
def place(trained, tmp_path, monkeypatch, unpictured) -> Path:
    """A folder to run commands in, with a finished run, where nothing is fetched."""
    shutil.copytree(trained, tmp_path / "run")
    for name in ("VARNET_STARTED_AS", "HYDRA_FULL_ERROR"):
        monkeypatch.setenv(name, "")  # what commands set is taken back
    offline(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


LISTED = [  # each was a traceback, or ran without an end
    "train init_from=7", "train model.batch_norm=2", "train dataset.seed=1e30", "train out_dir='a\0b'",
    f"train prior=gaussian prior.scale={10**30}", "train experiment=[[1]]", "train +hydra/launcher=[1,2]",
    "train eval.elbo_samples=9223372036854775807", "train prior.nu=2", "train experiment=[1]", "train param=[-1,null]",
    "train schedule=${.}", "train data_dir=5", "train name='\udcff'", "train +prior.nu=2",
    "train param.learn=log_sigma",
    "rl env.name=inf", "rl env=[1,2]", f"rl policy.hidden={10**40}", "rl policy=parameter_noise policy.learn=log_sigma",
    "evaluate out=9223372036854775807", "evaluate out=${nope}", "evaluate eval.fractions=[${nope}]", "compress out=5",
    "attack out=5", "attack iterations=9223372036854775807", f"reproduce seeds={'9' * 5000}", "reproduce device=[1]",
    "bench layers --threads 99999999999", "publish from= x", "fetch \x1b[31m", "report \x1b[31m",
    "train --nope", "train --cfg", "rl -x",
]  # fmt: skip


@pytest.mark.parametrize("typed", LISTED)
def test_what_once_failed_is_refused_in_a_sentence(typed, place):
    command, *arguments = typed.split(" ")
    case = fuzzing.Case(command, arguments)
    assert assert_ended_well(case, place) != 0
    assert sorted(path.name for path in place.iterdir()) == ["run"], "nothing is written"


def test_a_name_with_markup_is_a_name(place):
    case = fuzzing.Case("train", ["name='a[/b] $x^ [red]y'"])
    assert ended(case, place) == (0, "")


def runnable(choose: fuzzing.Choose) -> fuzzing.Case:
    case = fuzzing.case(choose)
    bad = [a for a in case.arguments if a.lstrip("+~").partition("=")[0] in WITHOUT]
    return fuzzing.Case(case.command, [a for a in case.arguments if a not in bad])


@pytest.mark.slow
def test_any_command_line_ends_well(place):
    importlib.import_module("gymnasium")

    @settings(2000)
    @hypothesis.given(fuzzing.by_hypothesis(runnable))
    def look(case: fuzzing.Case) -> None:
        assert_ended_well(case, place)

    look()
