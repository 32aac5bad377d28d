"""Figure 6 and its rows from run folders of known scores."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from tests.rl.small_runs import composed, tiny
from varnet.cli import reproduce, rl
from varnet.errors import ConfigError
from varnet.paper import fig6, scores
from varnet.paper.fig6 import chart_of, smoothed
from varnet.report.row import read
from varnet.rl.grid import expanded, grid
from varnet.rl.run import run
from varnet.runs.folder import RL, folder_of, saved_config
from varnet.runs.identity import digest
from varnet.train import checkpoint

pytest.importorskip("gymnasium", reason="pip install 'varnet[rl]'")


def test_a_trial_does_not_replace_the_figure_of_other_runs(tmp_path):
    sweep = [finished_run(tmp_path, "cartpole", "deterministic", seed, [9.0] * 150) for seed in range(3)]
    rl.summarise(sweep[2:], tmp_path)
    rows = read(tmp_path / "fig6.json")
    assert rows[0].n == 3, "seeds of another sweep count"
    trial = finished_run(tmp_path / "trial", "cartpole", "deterministic", 0, [9.0] * 2, **{"schedule.episodes": 2})
    rl.summarise([trial], tmp_path)
    assert read(tmp_path / "fig6.json") == rows
    (trial,) = tmp_path.glob("fig6-*.json")
    assert read(trial)[0].n == 1 and list(tmp_path.glob("figure6-*.png"))


def finished_run(folder: Path, env: str, policy: str, seed: int, values: list[float], **changes) -> Path:
    """The folder of a finished run, written by hand."""
    changes = {"env": env, "policy": policy, "seed": seed, "schedule.episodes": 150, **changes}
    cfg = composed(*(f"{key}={value}" for key, value in changes.items()))
    path = folder / f"{env}-{policy}-{seed}"
    (path / ".hydra").mkdir(parents=True)
    OmegaConf.save(cfg, path / ".hydra/config.yaml", resolve=True)
    (path / "history.jsonl").write_text("".join(json.dumps({"score": score}) + "\n" for score in values))
    about = {"env": env, "policy": cfg.policy.name, "seed": seed, "window": 100, "episodes": len(values)}
    metrics = {"score": 0, "commit": "abc", **about}
    (path / "metrics.json").write_text(json.dumps(metrics))
    return path


def test_a_run_without_a_commit_is_seen_in_the_row(tmp_path):
    folders = [finished_run(tmp_path, "cartpole", "variance", seed, [9.0] * 150) for seed in (0, 1)]
    metrics = json.loads((folders[1] / "metrics.json").read_text())
    (folders[1] / "metrics.json").write_text(json.dumps(metrics | {"commit": None}))
    assert [row.commit for row in scores.results(folders)] == ["None, abc"]


def test_report_of_known_runs(tmp_path):
    for seed in (0, 1):
        finished_run(tmp_path, "cartpole", "variance", seed, [9.0] * 50 + [100.0 + 20 * seed] * 100)
        finished_run(tmp_path, "cartpole", "deterministic", seed, [9.0] * 50 + [90.0] * 100)
    found = [row.as_dict() for row in scores.results(scores.find(tmp_path))]
    common = {"published": None, "difference": None, "n": 2, "scale": "150 episodes", "commit": "abc", "seeds": [0, 1]}
    metric = "final score, mean of the last 100 evaluation episodes"
    script = "python scripts/rl.py -m env=cartpole policy={} 'seed=range(2)' schedule.episodes=150 schedule.lr={}"
    fast, slow = script.format("variance", 0.001), script.format("deterministic", 0.0003)
    spread = 20 / math.sqrt(2)
    assert found == [
        {"row": "cartpole, deterministic", "metric": metric, "mean": 90.0, "std": 0.0,
         "values": [90.0, 90.0], "standard_error": 0.0, "command": slow, **common},
        {"row": "cartpole, variance", "metric": metric, "mean": 110.0, "std": pytest.approx(spread),
         "values": [100.0, 120.0], "standard_error": pytest.approx(10.0), "command": fast, **common},
        {"row": "cartpole, variance - deterministic", "metric": "difference of final scores, mean of the last 100 "
         "evaluation episodes", "mean": 20.0, "std": pytest.approx(spread),
         "values": [10.0, 30.0], "standard_error": pytest.approx(10.0), "command": f"{fast} && {slow}", **common},
    ]  # fmt: skip
    (axis,) = chart_of(scores.find(tmp_path)).axes
    assert [line.get_label() for line in axis.lines] == ["deterministic (2 seeds)", "variance network (2 seeds)"]
    band = axis.collections[1].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(120.0), "the mean and one standard error"
    assert axis.lines[1].get_ydata()[-1] == 110.0 and len(axis.collections) == 2 and axis.get_title() == "CartPole-v0"


def test_the_command_of_a_row_has_all_that_is_not_usual(tmp_path):
    changes = {"reinforce.gamma": 0.5, "policy.hidden": 8, "env.id": "MountainCar-v0", "reinforce.baseline": "null"}
    finished_run(tmp_path, "cartpole", "variance", 3, [9.0] * 150, **changes)
    (row,) = scores.results(scores.find(tmp_path))
    words = row.command.split()
    assert {f"{key}={value}" for key, value in changes.items()} <= set(words)
    overrides = [word.strip("'") for word in words[3:]]
    (again,) = grid(overrides)
    assert digest(again) == digest(saved_config(scores.find(tmp_path)[0], "", RL))
    (axis,) = chart_of(scores.find(tmp_path)).axes
    assert axis.get_title() == "MountainCar-v0, as env=cartpole"


def test_report_refuses_what_it_must_not_average(tmp_path):
    one = finished_run(tmp_path, "cartpole", "variance", 0, [9.0] * 150)
    two = finished_run(tmp_path, "cartpole", "variance", 1, [9.0] * 150, **{"schedule.lr": 0.5})
    with pytest.raises(ConfigError, match=r"no other seed of the same run: schedule.lr=0.5 \(the run has 0.001\)"):
        scores.results([one, two])
    with pytest.raises(ConfigError, match="holds no finished run"):
        chart_of([tmp_path])
    with pytest.raises(ConfigError, match="there is no finished run"):
        chart_of([])


def test_the_command_of_a_policy_with_a_name_of_its_own(tmp_path):
    changes = {"policy.name": "mine", "schedule.lr": 0.002, "policy.hidden": 8}
    finished_run(tmp_path, "cartpole", "variance", 3, [9.0] * 150, **changes)
    (row,) = scores.results(scores.find(tmp_path))
    (again,) = grid([word.strip("'") for word in row.command.split()[3:]])
    assert row.row == "cartpole, mine"
    assert digest(again) == digest(saved_config(scores.find(tmp_path)[0], "", RL))


def test_a_damaged_history_is_read_from_the_checkpoint(tmp_path):
    cfg = tiny(tmp_path)
    run(cfg)
    folder = folder_of(cfg)
    history, wanted = folder / "history.jsonl", scores.results([folder])
    whole = history.read_text()
    for damaged in ("", whole[: len(whole) // 2], whole[: whole.rindex("{")], None):
        history.write_text(damaged) if damaged is not None else history.unlink()
        assert scores.results([folder]) == wanted
    torch.save(checkpoint.load(folder) | {"history": []}, folder / checkpoint.NAME)
    with pytest.raises(ConfigError, match="has scores of 0 of 12 episodes: delete it and run it again"):
        scores.results([folder])


def test_smoothing():
    np.testing.assert_allclose(smoothed(np.array([1.0, 3.0, 5.0, 7.0]), 2), [1.0, 2.0, 4.0, 6.0])


def test_fig6_takes_its_own_runs_and_tells_of_a_sweep_that_failed(tmp_path, monkeypatch, capsys):
    short = ["env=cartpole", "env.max_steps=20", "policy.hidden=16", "schedule.episodes=3"]
    monkeypatch.setattr(fig6, "SWEEP", short)
    monkeypatch.setattr(fig6, "SEEDS", 1)
    folder = f"out_dir={tmp_path / 'rl'}"
    run(composed(*short, folder, "schedule.lr=1"))  # another trial, not of the figure
    common = [f"out={tmp_path / 'out'}", f"out_dir={tmp_path}"]
    assert reproduce.main(["fig6", "run=false", *common]) == 1
    assert "no finished run yet for: fig6" in capsys.readouterr().err
    assert reproduce.main(["fig6", "seeds=2", "jobs=2", *common]) == 0
    (row,) = read(tmp_path / "out" / "fig6.json")
    assert row.n == 2 and row.scale == "3 episodes" and "schedule.lr=0.001" in row.command
    third = folder_of(grid([*short, folder, "seed=2"])[0])
    third.write_text("a file where the folder should be")
    assert reproduce.main(["fig6", "fig2", "seeds=3", *common]) == 1
    said = capsys.readouterr().err
    assert said.startswith("fig6: cartpole_variance seed 2: out_dir=") and "the same command goes on" in said
    assert (tmp_path / "out" / "fig2.png").exists()


def test_one_rate_for_all_policies_and_more_episodes():
    configs = [cfg for each in fig6.ONE_RATE for cfg in grid(each)]
    assert {(cfg.env.name, cfg.policy.name) for cfg in configs} == {
        (e, p) for e in scores.TASKS for p in scores.POLICIES
    }
    assert {cfg.schedule.lr for cfg in configs} == {1e-3}
    assert all(cfg.schedule.episodes == 2 * cfg.env.episodes for cfg in configs)


def test_a_folder_with_a_comma_is_one_folder():
    for name in ("a,b", "it's", "a=b (c)"):
        (overrides,) = expanded([f"out_dir={fig6.quoted(name)}"])
        assert composed(*overrides).out_dir == name
