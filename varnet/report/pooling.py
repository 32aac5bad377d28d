"""Runs of different precision in one row, once a test of equivalence shows on one column at least that they are alike.

A column is an experiment of which both precisions have two runs or more. It shows them alike if all of its metrics with
margins are (varnet/report/verdict.py), and speaks for the experiments of its own network; where a metric of any column
shows the opposite, nothing is pooled. Of a seed that was run in both precisions one run counts.
"""

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import NamedTuple, Protocol

from varnet.report.verdict import alike, margins

PRECISIONS = ("fp32", "bf16", "fp16")
Runs = list[dict]  # metrics of runs, with their precision and network
ValueOf = Callable[[dict, str], float | None]  # a metric of a run


class Numbered(Protocol):
    """What is needed of a published number."""

    row: str
    experiment: str | None
    metric: str


class Pool(NamedTuple):
    """The runs of one row, and in which columns their precisions are alike."""

    runs: Runs
    columns: tuple[str, ...] = ()

    @property
    def precisions(self) -> list[str]:
        return [each for each in PRECISIONS if any(precision(run) == each for run in self.runs)]

    @property
    def note(self) -> str | None:
        """What a row of several precisions says of them."""
        if len(self.precisions) < 2:
            return None
        counts = (f"{sum(precision(run) == each for run in self.runs)} {each}" for each in self.precisions)
        return f"{' + '.join(counts)}, alike in {', '.join(self.columns)}"


def precision(run: dict) -> str:
    return run.get("precision", "fp32")


def pools(runs: Runs, columns: Mapping[tuple, tuple[str, ...]]) -> list[Pool]:
    """The runs of an experiment by precision, those together that may be pooled."""
    found: dict[str, Pool] = {}
    for each in PRECISIONS:
        own = [run for run in runs if precision(run) == each]
        base = next((b for b in found if own and (own[0].get("network"), b, each) in columns), None)
        if base is None:
            found |= {each: Pool(own)} if own else {}
            continue
        seeds = {run["seed"] for run in found[base].runs}
        shown = tuple(dict.fromkeys([*found[base].columns, *columns[own[0].get("network"), base, each]]))
        found[base] = Pool([*found[base].runs, *(run for run in own if run["seed"] not in seeds)], shown)
    return list(found.values())


def shown_alike(lines: Iterable[Numbered], runs: Mapping[str, Runs], value_of: ValueOf) -> dict[tuple, tuple[str, ...]]:
    """(network, precision, other precision) -> the columns that show both alike."""
    lines = list(lines)
    found: dict[tuple, dict[str, bool | None]] = {}
    for name, several in runs.items():
        metrics = {line.metric: line.row for line in lines if line.experiment == name}
        for i, first in enumerate(PRECISIONS):
            for second in PRECISIONS[i + 1 :]:
                for network, samples in _samples(several, (first, second)).items():
                    answer = _column(samples, metrics, value_of)
                    found.setdefault((network, first, second), {})[next(iter(metrics.values()))] = answer
    return {
        key: columns
        for key, answers in found.items()
        if False not in answers.values() and (columns := tuple(row for row, same in answers.items() if same))
    }


def _samples(runs: Runs, precisions: tuple[str, str]) -> dict[str | None, tuple[Runs, Runs]]:
    """Network -> its runs of both precisions, if it has them."""
    networks = dict.fromkeys(run.get("network") for run in runs)
    both = {
        network: tuple(
            [run for run in runs if (run.get("network"), precision(run)) == (network, p)] for p in precisions
        )
        for network in networks
    }
    return {network: samples for network, samples in both.items() if min(map(len, samples)) > 1}


def _column(samples: tuple[Runs, Runs], metrics: Iterable[str], value_of: ValueOf) -> bool | None:
    """True if every metric that has a margin is shown alike, False if one is shown to differ."""
    answers = []
    for metric in metrics:
        values = [[v for run in part if (v := value_of(run, metric)) is not None] for part in samples]
        if all(values) and margins(metric, fmean(values[0])) is not None:
            answers.append(alike(metric, *values))
    if False in answers:
        return False
    return True if answers and None not in answers else None
