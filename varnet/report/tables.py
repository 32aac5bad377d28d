"""Published numbers and finished runs -> rows -> Markdown and HTML.

Scales are never mixed in a row, precisions only where they are shown to be alike (pooling.py).
"""

import html
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from varnet.base.invocation import command
from varnet.report.pooling import Pool, pools, shown_alike
from varnet.report.row import Row, short

SCALES = {  # name -> what a table calls it; full: as published
    "full": "full", "fast": "full width, our schedule", "half": "width 0.5, our schedule", "small": "small",
}  # fmt: skip
NOT_RUN = "not run here"  # scale of a number that has no experiment
HEADINGS = ["row", "metric", "published", "ours", "n", "difference", "verdict", "scale"]
LABELS = {  # metric -> what a table calls it
    "elbo": "ELBO", "data_term": "data term", "kl": "KL", "acc_det": "deterministic, %",
    "acc_1": "one sample, noise for each object, %", "acc_1_weights": "one sample, one draw of the weights, %",
    "acc_k": "20 samples, %", "acc_zero_mean_k": "zero-mean, 20 samples, %", "error": "error, %",
    "rmse_det": "RMSE, deterministic", "rmse_1": "RMSE, one sample", "rmse_k": "RMSE, 20 samples",
    "nll_k": "NLL, 20 samples", "coverage_k": "coverage of 95 % intervals, %", "calibration_k": "calibration error, %",
    "train_acc_det": "train accuracy, %", "sparsity_all": "sparsity, %", "pruned.error": "error of what is left, %",
    "pruned.sparsity_all": "sparsity, %", "pruned.compression": "compression",
}  # fmt: skip
SAMPLED = ("elbo", "data_term")  # estimated from noise samples
LATER = ("acc_1_weights",)  # metrics that runs of earlier versions do not tell
OF_LAYERS = {"sparsity": "sparsity of {}, %", "log_alpha": "log alpha, {}"}
FindRuns = Callable[[str], list[dict]]  # name of an experiment -> metrics of its finished runs, one for each seed


class Published(NamedTuple):
    """A number in print, and the experiment that gives ours."""

    row: str  # as in the paper
    experiment: str | None  # configs/experiment/NAME.yaml; at another scale SCALE/NAME; None: we run nothing for it
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
    """A row for each scale and precision of training at which there is a finished run; none if there is no run."""
    lines = list(published)
    names = list(dict.fromkeys(line.experiment for line in lines if line.experiment))
    rows = []
    for scale in SCALES:
        found = {name: runs(name_at(name, scale)) for name in names}  # many rows share an experiment
        columns = shown_alike(lines, found, value_of)
        for line in lines:
            telling = [run for run in found.get(line.experiment or "", []) if _tells(run, line.metric)]
            rows += [_row(line, scale, pool) for pool in pools(telling, columns)]
    beside = [Row.of(line.row, line.metric, [], line.value, scale=NOT_RUN, command="", commit=None)
              for line in lines if line.experiment is None]  # fmt: skip
    return [*rows, *beside] if rows else []


def _tells(run: dict, metric: str) -> bool:
    return metric not in LATER or metric in run


def _row(line: Published, scale: str, pool: Pool) -> Row:
    return Row.of(
        line.row, line.metric, [v for run in pool.runs if (v := value_of(run, line.metric)) is not None], line.value,
        poster=line.poster, scale=scale, precision=" + ".join(pool.precisions), epochs=pool.runs[0]["epochs"],
        seeds=sorted(run["seed"] for run in pool.runs), command=_command(line, scale, pool),
        commit=", ".join(sorted({short(run.get("commit")) for run in pool.runs})),
        more={"pooled": pool.note} if pool.note else {}, **_sampling(line.metric, pool.runs),
    )  # fmt: skip


def _command(line: Published, scale: str, pool: Pool) -> str:
    parts = []
    for each in pool.precisions:
        seeds = sorted(run["seed"] for run in pool.runs if run.get("precision", "fp32") == each)
        start = f"{command('train')} experiment={name_at(line.experiment or '', scale)}{precision_option(each)}"
        parts.append(f"{start} seed={_swept(seeds)}")
    return " && ".join(parts)


def _sampling(metric: str, runs: list[dict]) -> dict[str, object]:
    """What the noise samples leave in the mean of a number that is estimated by them: a part of its spread over seeds,
    and the only error that is known of one run."""
    errors = [run.get("elbo_error") for run in runs]
    if metric not in SAMPLED or None in errors or not any(errors):
        return {}
    counts = sorted({run["elbo_samples"] for run in runs if "elbo_samples" in run})
    return {
        "sampling_error": math.sqrt(sum(error**2 for error in errors)) / len(errors),
        "noise_samples": ", ".join(map(str, counts)) or None,
    }


def _swept(seeds: list[int]) -> str:
    return str(seeds[0]) if len(seeds) == 1 else ",".join(map(str, seeds)) + " -m"


def value_of(run: dict, metric: str) -> float | None:
    """A metric of a run: `log_alpha.dense1` is a value inside another; some are derived from what a run saves."""
    if metric.startswith("pruned.") and "pruned" in run:  # what is left of a network without its noisy weights
        return value_of(run["pruned"], metric.removeprefix("pruned."))
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
    noise = "" if row.sampling_error is None else f" (noise {number(row.sampling_error, row.metric)})"
    scale = SCALES.get(row.scale, row.scale) + ("" if row.epochs is None else f", {row.epochs} epochs")
    scale += "" if row.precision in (None, "fp32") else f", {row.more.get('pooled', row.precision)}"
    return [
        row.row, label(row.metric), number(row.published, row.metric) + poster, ours(row) + noise, str(row.n),
        number(row.difference, row.metric), row.verdict or "-", scale,
    ]  # fmt: skip


def ours(row: Row) -> str:
    """Mean and standard deviation over seeds."""
    return number(row.mean, row.metric) + ("" if row.std is None else f" ± {number(row.std, row.metric)}")


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a table in Markdown."""
    return markdown_table(HEADINGS, map(cells, rows))


def markdown_table(headings: list[str], lines: Iterable[list[str]]) -> str:
    """Cells as a table in Markdown."""
    body = [f"| {' | '.join(line)} |" for line in [headings, *lines]]
    return "\n".join([body[0], "|" + "---|" * len(headings), *body[1:]]) + "\n"


def as_html(rows: Iterable[Row]) -> str:
    """The rows as a table in HTML."""
    head = "".join(f"<th>{h}</th>" for h in HEADINGS)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>\n'
