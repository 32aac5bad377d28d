"""Run folders -> Figure 6 and its rows: evaluation score by episode of training, mean and spread over the seeds."""

import functools
import io
import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from varnet.base.checks import shown
from varnet.base.invocation import command
from varnet.base.nested import flat
from varnet.errors import ConfigError
from varnet.rl.grid import composed
from varnet.rl.run import finished
from varnet.rl.trainer import WINDOW
from varnet.runs.composing import RL_CONFIGS
from varnet.runs.folder import RL, saved_config
from varnet.runs.identity import differences, identity
from varnet.train import checkpoint
from varnet.train.logger import HISTORY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS = {"cartpole": "CartPole-v0", "acrobot": "Acrobot-v1"}
STYLES = {  # policy -> (label, colour), in the order of the paper's legend
    "deterministic": ("deterministic", "#8c8c8c"),
    "parameter_noise": ("parameter noise", "#c44e52"),
    "variance": ("variance network", "#4c72b0"),
}
SMOOTHING = 50  # episodes of the moving average that the figure shows
COMMAND = "python scripts/rl.py -m env={env} policy={policy} 'seed={seeds}' {options}"


class Curves(dict):
    """seed -> evaluation score by episode, of the runs of one task and policy."""

    metrics: dict  # of one of the runs
    config: dict  # of all of them, without the seed
    commits: set[str | None]


def find(folder: Path) -> list[Path]:
    """The finished runs inside a folder."""
    return sorted(path.parent for path in Path(folder).rglob("metrics.json") if finished(path.parent))


def collect(folders: Iterable[Path]) -> dict[tuple[str, str], Curves]:
    """(env, policy) -> the curves of its seeds, in the order of the figure. Runs that differ in more than the seed are
    not averaged."""
    found: dict[tuple[str, str], Curves] = {}
    for folder in map(Path, folders):
        metrics = finished(folder)
        if metrics is None:
            raise ConfigError(f"{folder} holds no finished run: finish it with {command('rl')} resume={folder}")
        curves = found.setdefault((metrics["env"], metrics["policy"]), Curves())
        config = identity(saved_config(folder, "", RL)) | {"seed": None}
        if curves and (lines := differences(config, curves.config)):
            raise ConfigError(
                f"{folder} is no other seed of the same run: {'; '.join(lines[:3])}; leave one of them out"
            )
        commits = {metrics["commit"]} | (curves.commits if curves else set())
        curves.metrics, curves.config, curves.commits = metrics, config, commits
        curves[metrics["seed"]] = scores_of(folder, metrics["episodes"])
    if not found:
        raise ConfigError(f"there is no finished run to report: start with {command('rl')} --help")
    return dict(sorted(found.items(), key=lambda item: [_rank(item[0][0], [*TASKS]), _rank(item[0][1], [*STYLES])]))


def scores_of(folder: Path, episodes: int) -> np.ndarray:
    """The evaluation scores of a finished run; if its history was damaged, from the checkpoint."""
    try:
        rows = [json.loads(line) for line in (folder / HISTORY).read_text().splitlines()]
        scores = [row["score"] for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        scores = []
    if len(scores) != episodes:
        scores = [row["score"] for row in checkpoint.load(folder).get("history", [])]
    if len(scores) != episodes:
        raise ConfigError(f"{folder} has scores of {len(scores)} of {episodes} episodes: delete it and run it again")
    return np.array(scores)


def _rank(name: str, known: list[str]) -> int:
    return known.index(name) if name in known else len(known)


def final(scores: np.ndarray) -> float:
    return float(scores[-WINDOW:].mean())


def results(folders: Iterable[Path]) -> list[dict]:
    """Rows {row, metric, published, mean, std, n, scale, seeds, values, command, commit}: final scores, then how far
    the variance policy is above the others, seed by seed. The figure prints no numbers: published is null."""
    found = collect(folders)
    rows = [
        _row(f"{env}, {policy}", "final score", {s: final(curve) for s, curve in curves.items()}, env, {policy: curves})
        for (env, policy), curves in found.items()
    ]
    for (env, policy), curves in found.items():
        mine = found.get((env, "variance"), {})
        if policy != "variance" and (shared := sorted(curves.keys() & mine.keys())):
            values = {seed: final(mine[seed]) - final(curves[seed]) for seed in shared}
            row = f"{env}, variance - {policy}"
            rows.append(_row(row, "difference of final scores", values, env, {"variance": mine, policy: curves}))
    return rows


def _row(row: str, metric: str, by_seed: dict[int, float], env: str, sources: dict[str, Curves]) -> dict:
    """sources: policy -> its runs."""
    seeds = sorted(by_seed)
    values = [by_seed[seed] for seed in seeds]
    curves = next(iter(sources.values()))
    commits = set().union(*(each.commits for each in sources.values()))
    return {
        "row": row,
        "metric": f"{metric}, mean of the last {curves.metrics['window']} evaluation episodes",
        "published": None,
        "mean": float(np.mean(values)),
        "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "n": len(values),
        "scale": f"{curves.metrics['episodes']} episodes",
        "seeds": seeds,
        "values": values,
        "command": " && ".join(_command(env, policy, each) for policy, each in sources.items()),
        "commit": ", ".join(sorted(filter(None, commits))) or None,
    }


def _command(env: str, policy: str, curves: Curves) -> str:
    """The schedule, and whatever else is not as the two choices have it; a name of one's own is no choice."""
    env, policy = _choice("env", env, "cartpole"), _choice("policy", policy, "variance")
    usual, own = flat(_usual(env, policy)), flat(curves.config)
    options = [
        f"{key}={shown(own.get(key))}" for key in dict.fromkeys([*own, *usual])
        if key != "seed" and (key.startswith("schedule.") or own.get(key) != usual.get(key))
    ]  # fmt: skip
    return COMMAND.format(
        env=env, policy=policy, seeds=_seeds(sorted(curves)), options=" ".join(map(shlex.quote, options))
    )


def _choice(group: str, name: str, default: str) -> str:
    return name if (RL_CONFIGS / group / f"{name}.yaml").exists() else default


@functools.cache
def _usual(env: str, policy: str) -> dict:
    """The configuration of these two choices and nothing else."""
    return identity(composed([f"env={env}", f"policy={policy}"]))


def _seeds(seeds: list[int]) -> str:
    return f"range({len(seeds)})" if seeds == list(range(len(seeds))) else ",".join(map(str, seeds))


def figure(folders: Iterable[Path]) -> "Figure":
    """One panel per task; lines are means over the seeds, bands one standard deviation."""
    from matplotlib.figure import Figure

    found = collect(folders)
    tasks = list(dict.fromkeys(env for env, _ in found))
    chart = Figure(figsize=(5.4 * len(tasks), 4.0), dpi=120, layout="constrained")
    for axis, task in zip(chart.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        for (env, policy), curves in found.items():
            if env == task:
                _draw(axis, policy, curves)
        axis.set(
            title=_title(task, next(curves for (env, _), curves in found.items() if env == task)),
            xlabel="episode of training",
            ylabel="evaluation score",
        )
        axis.grid(alpha=0.25)
        axis.legend(frameon=False)
    return chart


def _title(task: str, curves: Curves) -> str:
    """The paper's name of the task, unless it was run with other options."""
    own = curves.config["env"]
    return TASKS[task] if task in TASKS and own == _usual(task, "variance")["env"] else f"{own['id']}, as env={task}"


def _draw(axis, policy: str, curves: Curves) -> None:
    label, colour = STYLES.get(policy, (policy, None))
    scores = np.stack([smoothed(values) for values in curves.values()])  # seeds x episodes
    mean, std = scores.mean(0), scores.std(0, ddof=1) if len(scores) > 1 else np.zeros(scores.shape[1])
    episodes = np.arange(1, scores.shape[1] + 1)
    (line,) = axis.plot(episodes, mean, lw=1.6, color=colour, label=f"{label} ({len(scores)} seeds)")
    axis.fill_between(episodes, mean - std, mean + std, color=line.get_color(), alpha=0.18, lw=0)


def smoothed(scores: np.ndarray, window: int = SMOOTHING) -> np.ndarray:
    """The mean of the last `window` values at each point, of fewer at the start."""
    total = np.concatenate([[0.0], scores.cumsum()])
    ends = np.arange(1, len(scores) + 1)
    starts = np.maximum(0, ends - window)
    return (total[ends] - total[starts]) / (ends - starts)


def png(chart: "Figure") -> bytes:
    buffer = io.BytesIO()
    chart.savefig(buffer, format="png")
    return buffer.getvalue()
