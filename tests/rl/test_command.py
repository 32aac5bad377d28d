"""The command of reinforcement learning: wrong input, sweeps, folders given by name, the GIF."""

import math
import re
import subprocess
import sys

import pytest
from hydra.errors import HydraException

from tests.composing import ROOT
from tests.nn.refused import assert_refused
from tests.rl.small_runs import composed, tiny
from varnet.cli import rl
from varnet.errors import ConfigError
from varnet.launch.command import flags_first
from varnet.paper import scores
from varnet.report import read
from varnet.rl import render
from varnet.rl.grid import grid
from varnet.rl.run import run
from varnet.runs.folder import folder_of
from varnet.runs.overrides import explain
from varnet.runs.resuming import resumed

pytest.importorskip("gymnasium", reason="pip install 'varnet[rl]'")

REFUSED = {  # override -> the key at fault, and the remedy
    "env.id=Nope-v0": ("env.id", "use env=cartpole or env=acrobot"),
    "env.id=Pendulum-v1": ("env.id", "env=cartpole and env=acrobot"),
    "env.id=a:b:c": ("env.id", "use the name of a task of gymnasium alone"),
    "env.max_steps=-1": ("env.max_steps", "a whole number from 1 to 1000000"),
    "env.max_steps=1000000000": ("env.max_steps", "a whole number from 1 to 1000000"),
    "schedule.episodes=-5": ("schedule.episodes", "a whole number from 1"),
    "policy.name=mine": ("schedule.lr", "give one, a finite number above 0"),
    "schedule.lr=-0.1": ("schedule.lr", "a finite number above 0"),
    "reinforce.gamma=1.5": ("reinforce.gamma", "a finite number from 0 up to 1"),
    "reinforce.baseline=1": ("reinforce.baseline", "a finite number from 0 below 1, or null"),
    "seed=-1": ("seed", "a whole number from 0"),
    "jobs=0": ("jobs", "a whole number from 1"),
    "policy.hidden=0": ("policy.hidden", "a whole number from 1"),
    "policy.param=foo": ("policy.param", "use one of "),
    "policy.param=null": ("policy.param", "use one of "),
    "policy.layers=none": ("policy.layers", "use policy=deterministic, or a layer"),
    "policy.layers=[]": ("policy.layers", "use policy=deterministic, or a layer"),
    "policy.layers=[dense9]": ("policy.layers", "dense1, dense2, dense3"),
    "policy.param=deterministic": ("policy.learn", "leave it out"),
    "policy.log_sigma=1e9": ("policy.log_sigma", "up to 43"),
    "policy.noise=cauchy": ("policy.noise", "gaussian"),
    "+policy.prior=student": ("policy.prior", "choose from name, param, hidden"),
    "+env.gravity=1": ("env.gravity", "choose from name, id, max_steps"),
    "+schedule.foo=1": ("schedule.foo", "choose from episodes, lr"),
    "+reinforce.foo=1": ("reinforce.foo", "choose from gamma, baseline"),
    "+eval.every=1": ("eval.every", "choose from actions"),
    "eval.actions=best": ("eval.actions", "one of sample, greedy"),
    "+foo=1": ("foo", "--help lists the keys"),
    "device=tpu": ("device", "choose one of"),
}
UNKNOWN = {  # choices that are refused while a configuration is composed
    "env=pong": "env=pong is not known: choose one of acrobot, cartpole",
    "policy=varianc": "did you mean policy=variance",
}


@pytest.mark.parametrize("override", REFUSED)
def test_wrong_values_are_refused_before_anything_is_written(override, tmp_path):
    key, remedy = REFUSED[override]
    assert_refused(lambda: run(tiny(tmp_path, override)), key, remedy)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("override", UNKNOWN)
def test_an_unknown_choice_is_said_with_the_known_ones(override, tmp_path):
    with pytest.raises(HydraException) as caught:
        tiny(tmp_path, override)
    said = explain(caught.value, [override])
    assert UNKNOWN[override] in said and "\n" not in said


def test_a_missing_gymnasium_is_said_with_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ConfigError, match=r"gymnasium, which is not installed: pip install 'varnet\[rl\]'"):
        run(tiny(tmp_path))
    assert list(tmp_path.iterdir()) == []


# ---- the command and the GIF


def test_a_sweep_runs_its_seeds_and_survives_one_that_fails(tmp_path, capsys):
    shrink = [f"out_dir={tmp_path}", "schedule.episodes=3", "env.max_steps=20", "policy.hidden=16"]
    broken = folder_of(composed(*shrink, "seed=1"))
    broken.parent.mkdir(parents=True)
    broken.write_text("a file where the folder should be")
    with pytest.raises(SystemExit) as caught:
        rl.command_line(["policy=variance", "env=cartpole", "seed=range(3)", "-m", "jobs=2", *shrink])
    said = capsys.readouterr().err
    assert caught.value.code == 1 and said.count("\n") == 1, said
    assert said.startswith("error: 1 of 3 runs failed (cartpole_variance seed 1: out_dir=")
    assert len(scores.find(tmp_path)) == 2 and (tmp_path / "figure6.png").read_bytes().startswith(b"\x89PNG")
    assert read(tmp_path / "fig6.json") == scores.results(scores.find(tmp_path))


def test_a_sweep_runs_each_run_once_and_needs_one(tmp_path):
    assert [cfg.seed for cfg in grid([f"out_dir={tmp_path}", "seed=0,1,0"])] == [0, 1]
    with pytest.raises(ConfigError, match=r"the sweep seed=range\(0\) has no run"):
        grid(["seed=range(0)"])
    with pytest.raises(ConfigError, match=r"seed=99999999999999999999 "):
        grid(["seed=0,99999999999999999999"])
    for wrong in ("seed=range(0,2,0)", "seed=interval(0,3)", "env=cartpole,"):
        with pytest.raises(ConfigError, match=rf"^{re.escape(wrong)} cannot be read as a sweep \("):
            grid([wrong])


def test_a_sweep_has_the_configurations_of_its_single_runs():
    assert [cfg.seed for cfg in grid(["seed=1", "++seed=5"])] == [5]
    found = grid(["policy=variance,deterministic", "seed=0,7", "schedule.lr=0.01"])
    wanted = [(policy, seed) for policy in ("variance", "deterministic") for seed in (0, 7)]
    assert found == [composed(f"policy={policy}", f"seed={seed}", "schedule.lr=0.01") for policy, seed in wanted]


def test_the_command_says_one_sentence():
    script = [sys.executable, str(ROOT / "scripts" / "rl.py"), "-m", "policy=varianc", "seed=0,1"]
    done = subprocess.run(script, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: policy=varianc is not known") and done.stderr.count("\n") == 1


def test_folders_given_by_name(tmp_path, capsys):
    """Hydra's + and ++ begin no other run, and what would have no effect is refused."""
    cfg = tiny(tmp_path, "schedule.episodes=2")
    run(cfg)
    folder = folder_of(cfg)
    before = sorted(path.name for path in tmp_path.iterdir())
    for words, arguments in {
        "resume=nowhere is not a folder": ["++resume=nowhere"],
        "eval.actions=greedy has no meaning beside render=": [f"render={folder}", "eval.actions=greedy"],
        "-m has no meaning beside resume=": [f"resume={folder}", "-m"],
        "name the choices": ["-m", "policy=glob(*)"],
    }.items():
        place = [] if "eval" in words else [f"out_dir={tmp_path}"]
        with pytest.raises(SystemExit) as caught:
            rl.command_line(flags_first([*arguments, *place]))
        said = capsys.readouterr().err
        assert caught.value.code == 2 and words in said and said.count("\n") == 1, said
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    with pytest.raises(ConfigError, match=r"is a run of scripts/rl.py: name the folder of a run of train.py"):
        resumed(folder, [])


def test_a_sweep_over_folders_draws_a_figure_in_each(tmp_path):
    places = [tmp_path / "a", tmp_path / "b"]
    configs = [tiny(place, "schedule.episodes=2") for place in places]
    for cfg in configs:
        run(cfg)
    rl.sweep(configs)
    assert all((place / "figure6.png").exists() for place in places)


def test_files_that_cannot_be_written_are_said(tmp_path, capsys):
    cfg = tiny(tmp_path, "schedule.episodes=2")
    run(cfg)
    (tmp_path / "figure6.png").mkdir()
    with pytest.raises(SystemExit) as caught:
        rl.command_line(
            [
                "-m",
                f"out_dir={tmp_path}",
                "schedule.episodes=2",
                "env.max_steps=20",
                "policy.hidden=16",
                "checkpoint_every=5",
            ]
        )
    message = capsys.readouterr().err
    assert caught.value.code == 4 and message.count("\n") == 1 and "figure6.png" in message


def test_a_gif_of_a_policy(tmp_path):
    pytest.importorskip("pygame", reason="pip install 'varnet[rl]'")
    from PIL import Image

    cfg = tiny(tmp_path, "schedule.episodes=2", "env.max_steps=12")
    run(cfg)
    path, score = render.gif(folder_of(cfg))
    with Image.open(path) as image:
        assert 1 < image.n_frames <= math.ceil(score / 2)  # equal frames are joined
    with pytest.raises(ConfigError, match=r"render=.* is not a folder"):
        render.gif(tmp_path / "nowhere")
