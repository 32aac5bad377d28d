"""Runs of reinforcement learning -> evaluation score by episode of training, and the rows that go with Figure 6."""

import functools
import math
import shlex
import statistics
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from varnet.base.checks import shown
from varnet.base.invocation import command
from varnet.base.nested import flat
from varnet.errors import ConfigError
from varnet.report.row import Row
from varnet.rl.grid import composed
from varnet.rl.run import finished
from varnet.rl.trainer import WINDOW
from varnet.runs.composing import RL_CONFIGS
from varnet.runs.folder import RL, saved_config
from varnet.runs.identity import differences, identity
from varnet.runs.past import history
from varnet.train import checkpoint

TASKS = ("cartpole", "acrobot")  # in the order of the paper
POLICIES = ("deterministic", "parameter_noise", "variance")
COMMAND = "{rl} -m env={env} policy={policy} 'seed={seeds}' {options}"


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
    return dict(sorted(found.items(), key=lambda item: [_rank(item[0][0], TASKS), _rank(item[0][1], POLICIES)]))


def scores_of(folder: Path, episodes: int) -> np.ndarray:
    """The evaluation scores of a finished run; if its history was damaged, from the checkpoint."""
    try:
        scores = [float(row["score"]) for row in history(folder, None)]
    except (ValueError, KeyError, TypeError):
        scores = []
    if len(scores) != episodes:
        scores = [row["score"] for row in checkpoint.load(folder).get("history", [])]
    if len(scores) != episodes:
        raise ConfigError(f"{folder} has scores of {len(scores)} of {episodes} episodes: delete it and run it again")
    return np.array(scores)


def _rank(name: str, known: tuple[str, ...]) -> int:
    return known.index(name) if name in known else len(known)


def final(scores: np.ndarray) -> float:
    """The score of a run: the mean of its last evaluation episodes."""
    return float(scores[-WINDOW:].mean())


def results(folders: Iterable[Path]) -> list[Row]:
    """Final scores, then how far the variance policy is above the others, seed by seed. The figure prints no numbers:
    published is None."""
    found = collect(folders)
    rows = [
        _row(f"{env}, {policy}", "final score", {s: final(curve) for s, curve in curves.items()}, env, {policy: curves})
        for (env, policy), curves in found.items()
    ]
    for (env, policy), curves in found.items():
        mine = found.get((env, "variance"), Curves())
        if policy != "variance" and (shared := sorted(curves.keys() & mine.keys())):
            values = {seed: final(mine[seed]) - final(curves[seed]) for seed in shared}
            row = f"{env}, variance - {policy}"
            rows.append(_row(row, "difference of final scores", values, env, {"variance": mine, policy: curves}))
    return rows


def _row(row: str, metric: str, by_seed: dict[int, float], env: str, sources: dict[str, Curves]) -> Row:
    """sources: policy -> its runs."""
    curves = next(iter(sources.values()))
    commits = set().union(*(each.commits for each in sources.values()))
    values = [by_seed[seed] for seed in sorted(by_seed)]
    return Row.of(
        row, f"{metric}, mean of the last {curves.metrics['window']} evaluation episodes", values,
        scale=f"{curves.metrics['episodes']} episodes", seeds=sorted(by_seed),
        more={"values": values, **_standard_error(values)},
        command=" && ".join(_command(env, policy, each) for policy, each in sources.items()),
        commit=", ".join(sorted(map(str, commits))) or None,
    )  # fmt: skip


def _standard_error(values: list[float]) -> dict[str, float]:
    """Of the mean over seeds: what two policies are compared by."""
    return {"standard_error": statistics.stdev(values) / math.sqrt(len(values))} if len(values) > 1 else {}


def _command(env: str, policy: str, curves: Curves) -> str:
    """The schedule, and whatever else is not as the two choices have it; a name of one's own is no choice."""
    env, policy = _choice("env", env, TASKS[0]), _choice("policy", policy, "variance")
    chosen, own = flat(usual(env, policy)), flat(curves.config)
    options = [
        f"{key}={shown(own.get(key))}" for key in dict.fromkeys([*own, *chosen])
        if key != "seed" and (key.startswith("schedule.") or own.get(key) != chosen.get(key))
    ]  # fmt: skip
    return COMMAND.format(
        rl=command("rl"),
        env=env,
        policy=policy,
        seeds=_seeds(sorted(curves)),
        options=" ".join(map(shlex.quote, options)),
    )


def _choice(group: str, name: str, default: str) -> str:
    return name if (RL_CONFIGS / group / f"{name}.yaml").exists() else default


@functools.cache
def usual(env: str, policy: str) -> dict:
    """The configuration of these two choices and nothing else."""
    return identity(composed([f"env={env}", f"policy={policy}"]))


def _seeds(seeds: list[int]) -> str:
    return f"range({len(seeds)})" if seeds == list(range(len(seeds))) else ",".join(map(str, seeds))
