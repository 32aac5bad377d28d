"""Published numbers and finished runs -> rows -> Markdown and HTML. Scales and precisions are never mixed in a row."""

import functools
import html
from collections.abc import Callable, Iterable
from typing import NamedTuple

from varnet.base.invocation import command
from varnet.report.row import Row, short

SCALES = {  # name -> what a table calls it; full: as published
    "full": "full", "fast": "full width, our schedule", "half": "width 0.5, our schedule", "small": "small",
}  # fmt: skip
PRECISIONS = ("fp32", "bf16", "fp16")
HEADINGS = ["row", "metric", "published", "ours", "n", "difference", "verdict", "scale"]
LABELS = {  # metric -> what a table calls it
    "elbo": "ELBO", "data_term": "data term", "kl": "KL", "acc_det": "deterministic, %", "acc_1": "one sample, %",
    "acc_k": "20 samples, %", "acc_zero_mean_k": "zero-mean, 20 samples, %", "error": "error, %",
    "train_acc_det": "train accuracy, %", "sparsity_all": "sparsity, %",
}  # fmt: skip
OF_LAYERS = {"sparsity": "sparsity of {}, %", "log_alpha": "log alpha, {}"}
FindRuns = Callable[[str], list[dict]]  # name of an experiment -> metrics of its finished runs, one for each seed


class Published(NamedTuple):
    """A number in print, and the experiment that gives ours."""

    row: str  # as in the paper
    experiment: str  # configs/experiment/NAME.yaml; at another scale SCALE/NAME
    metric: str  # key of a run's metrics.json
    value: float | None
    poster: float | None = None  # the paper's poster prints an earlier run of Table 1


def name_at(experiment: str, scale: str) -> str:
    """The experiment of that scale."""
    return experiment if scale == "full" else f"{scale}/{experiment}"


def precision_option(precision: str) -> str:
    """The part of a command, behind a space, that asks for the precision."""
    return "" if precision == "fp32" else f" precision={precision}"


def rows_of(published: Iterable[Published], runs: FindRuns) -> list[Row]:
    """A row for each scale and precision of training at which there is a finished run."""
    runs = functools.cache(runs)  # of an experiment that many rows share
    return [
        _row(line, scale, precision, found)
        for scale in SCALES
        for line in published
        for precision in PRECISIONS
        if (found := [r for r in runs(name_at(line.experiment, scale)) if r.get("precision", "fp32") == precision])
    ]


def _row(line: Published, scale: str, precision: str, runs: list[dict]) -> Row:
    seeds, option = sorted(run["seed"] for run in runs), precision_option(precision)
    return Row.of(
        line.row, line.metric, [value for run in runs if (value := value_of(run, line.metric)) is not None], line.value,
        poster=line.poster, scale=scale, precision=precision, epochs=runs[0]["epochs"], seeds=seeds,
        command=f"{command('train')} experiment={name_at(line.experiment, scale)}{option} seed={_swept(seeds)}",
        commit=", ".join(sorted({short(run.get("commit")) for run in runs})),
    )  # fmt: skip


def _swept(seeds: list[int]) -> str:
    return str(seeds[0]) if len(seeds) == 1 else ",".join(map(str, seeds)) + " -m"


def value_of(run: dict, metric: str) -> float | None:
    """A metric of a run: `log_alpha.dense1` is a value inside another; two are derived from what a run saves."""
    if metric == "error":
        return 100 - run["acc_det"]
    if metric == "sparsity_all":
        if "compression" not in run:
            return None
        emptied = all(share == 100 for share in run["sparsity"].values())  # compression takes one weight as left
        return 100.0 if emptied else 100 * (1 - 1 / run["compression"])
    value: object = run
    for key in metric.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


# ---- as text


def label(metric: str) -> str:
    """The words for a metric; one that has none is its own."""
    kind, _, layer = metric.partition(".")
    return OF_LAYERS[kind].format(layer) if layer and kind in OF_LAYERS else LABELS.get(metric, metric)


def number(value: float | None, metric: str = "") -> str:
    """A value with the digits that its metric deserves."""
    if value is None:
        return "-"
    if metric.startswith("test_"):
        return f"{value:.4f}"
    return f"{value:.2f}" if metric.startswith(("acc", "log_alpha")) or 0.1 <= abs(value) < 100 else f"{value:.4g}"


def cells(row: Row) -> list[str]:
    """One line of a table, under HEADINGS."""
    poster = "" if row.poster is None else f" (poster {number(row.poster, row.metric)})"
    spread = "" if row.std is None else f" ± {number(row.std, row.metric)}"
    scale = SCALES.get(row.scale, row.scale) + ("" if row.epochs is None else f", {row.epochs} epochs")
    scale += "" if row.precision in (None, "fp32") else f", {row.precision}"
    return [
        row.row, label(row.metric), number(row.published, row.metric) + poster, number(row.mean, row.metric) + spread,
        str(row.n), number(row.difference, row.metric), row.verdict or "-", scale,
    ]  # fmt: skip


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a table in Markdown."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    return "\n".join(lines + [f"| {' | '.join(cells(row))} |" for row in rows]) + "\n"


def as_html(rows: Iterable[Row]) -> str:
    """The rows as a table in HTML."""
    head = "".join(f"<th>{h}</th>" for h in HEADINGS)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>\n'
