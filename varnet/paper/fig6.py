"""Figure 6: evaluation score by episode of training, three policies on two tasks; mean over the seeds and its standard
error. Beside it the same with one learning rate for all policies and twice the episodes."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from varnet.paper.library import Library
from varnet.paper.scores import Curves, collect, results, usual
from varnet.paper.targets import Drawn, Part, figure
from varnet.rl.grid import grid
from varnet.rl.run import finished
from varnet.rl.sweep import sweep
from varnet.runs.folder import folder_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEEDS = 9
SWEEP = ["env=cartpole,acrobot", "policy=variance,deterministic,parameter_noise"]
ONE_RATE = [  # the smaller of 3e-4 and 1e-3 with which every policy learns (configs/rl/env)
    ["env=cartpole", SWEEP[1], "schedule.lr=1e-3", "schedule.episodes=6000"],
    ["env=acrobot", SWEEP[1], "schedule.lr=1e-3", "schedule.episodes=4000"],
]
PASSED_ON = ("device", "threads", "checkpoint_every")
TITLES = {"cartpole": "CartPole-v0", "acrobot": "Acrobot-v1"}
STYLES = {  # policy -> (label, colour), in the order of the paper's legend
    "deterministic": ("deterministic", "#8c8c8c"),
    "parameter_noise": ("parameter noise", "#c44e52"),
    "variance": ("variance network", "#4c72b0"),
}
SMOOTHING = 50  # episodes of the moving average that the figure shows
PARTS = [Part(f"{env}, {policy}", SEEDS) for env in TITLES for policy in STYLES]


@figure("fig6", "Figure 6: evaluation score by episode, three policies", parts=PARTS)
def draw(library: Library) -> Drawn | None:
    """Draw the published comparison; the whole takes an hour of CPU time. Both scales are the same."""
    return drawn("fig6", [SWEEP], library)


@figure(
    "fig6_one_rate", "Figure 6 with one learning rate for all policies, and twice the episodes: evaluation score by "
    "episode", parts=PARTS,
)  # fmt: skip
def draw_one_rate(library: Library) -> Drawn | None:
    """Draw policies that differ in nothing else; the whole takes two hours of CPU time or more."""
    return drawn("fig6_one_rate", ONE_RATE, library)


def drawn(target: str, sweeps: Iterable[list[str]], library: Library) -> Drawn | None:
    """The runs of these sweeps in OUT_DIR/rl, after those that are missing."""
    passed = [o for o in library.overrides if o.partition("=")[0] in PASSED_ON]
    folder = Path(library.option("out_dir") or "outputs") / "rl"
    common = [f"seed=range({max(SEEDS, library.seeds)})", f"out_dir={quoted(str(folder))}", *passed]
    configs = [cfg for each in sweeps for cfg in grid([*each, *common])]
    if library.may_run:
        _, failed = sweep(configs, library.at_once)
        if failed:
            library.failures[target] = f"{failed[0]}; the same command goes on"
    folders = [place for place in map(folder_of, configs) if finished(place)]
    return Drawn(chart_of(folders), {}, results(folders)) if folders else None


def quoted(value: str) -> str:
    """Quote a value for Hydra, which takes a comma for the end of a choice of a sweep."""
    return "'" + value.replace("'", "\\'") + "'"


def chart_of(folders: Iterable[Path]) -> "Figure":
    """One panel per task; lines are means over the seeds, bands their standard errors."""
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
    return TITLES[task] if task in TITLES and own == usual(task, "variance")["env"] else f"{own['id']}, as env={task}"


def _draw(axis: "Axes", policy: str, curves: Curves) -> None:
    label, colour = STYLES.get(policy, (policy, None))
    scores = np.stack([smoothed(values) for values in curves.values()])  # seeds x episodes
    mean, error = scores.mean(0), standard_error(scores)
    episodes = np.arange(1, scores.shape[1] + 1)
    (line,) = axis.plot(episodes, mean, lw=1.6, color=colour, label=f"{label} ({len(scores)} seeds)")
    axis.fill_between(episodes, mean - error, mean + error, color=line.get_color(), alpha=0.18, lw=0)


def standard_error(scores: np.ndarray) -> np.ndarray:
    """Of the mean over seeds (rows); 0 of one."""
    seeds = len(scores)
    return scores.std(0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(scores.shape[1])


def smoothed(scores: np.ndarray, window: int = SMOOTHING) -> np.ndarray:
    """The mean of the last `window` values at each point, of fewer at the start."""
    total = np.concatenate([[0.0], scores.cumsum()])
    ends = np.arange(1, len(scores) + 1)
    starts = np.maximum(0, ends - window)
    return (total[ends] - total[starts]) / (ends - starts)
