"""Runs -> rows beside the published numbers -> JSON, Markdown, HTML. Scales are never mixed in a row."""

import html
import json
import statistics
from collections.abc import Callable, Iterable

from varnet.paper.published import METRICS, TABLES, Row

SCALES = ("full", "small")
PRECISIONS = ("fp32", "bf16", "fp16")
FindRuns = Callable[[str], list[dict]]  # name of an experiment -> metrics of its finished runs, one for each seed


def name_at(experiment: str, scale: str) -> str:
    return experiment if scale == "full" else f"small/{experiment}"


def precision_option(precision: str) -> str:
    """What a command needs, behind a space, for that precision."""
    return "" if precision == "fp32" else f" precision={precision}"


def rows_of(table: str, runs: FindRuns) -> list[dict]:
    """A row for each scale and precision of training at which there is a finished run."""
    return [
        _row(row, scale, precision, found)
        for scale in SCALES
        for row in TABLES[table]
        for precision in PRECISIONS
        if (found := [r for r in runs(name_at(row.experiment, scale)) if r.get("precision", "fp32") == precision])
    ]


def _row(row: Row, scale: str, precision: str, runs: list[dict]) -> dict:
    values = [value for run in runs if (value := _value(run, row.metric)) is not None]
    mean = statistics.fmean(values) if values else None
    extra = {} if row.poster is None else {"poster": row.poster}
    option = precision_option(precision)
    return {
        "row": row.row, "metric": row.metric, "published": row.published, **extra, "mean": mean,
        "std": statistics.stdev(values) if len(values) > 1 else None, "n": len(values),
        "difference": _difference(mean, row.published), "scale": scale, "precision": precision,
        "epochs": runs[0]["epochs"], "seeds": sorted(run["seed"] for run in runs),
        "command": f"python train.py experiment={name_at(row.experiment, scale)}{option} seed={_seeds(runs)}",
        "commit": ", ".join(sorted({str(run.get("commit"))[:10] for run in runs})),
    }  # fmt: skip


def _difference(mean: float | None, published: float | None) -> float | None:
    return None if mean is None or published is None else mean - published


def _seeds(runs: list[dict]) -> str:
    seeds = sorted(run["seed"] for run in runs)
    return str(seeds[0]) if len(seeds) == 1 else ",".join(map(str, seeds)) + " -m"


def _value(run: dict, metric: str) -> float | None:
    """`log_alpha.dense1` is a value inside another; two are derived from what a run saves."""
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


def number(value: float | None, metric: str = "") -> str:
    if value is None:
        return "-"
    if metric.startswith("test_"):
        return f"{value:.4f}"
    return f"{value:.2f}" if metric.startswith(("acc", "log_alpha")) or 0.1 <= abs(value) < 100 else f"{value:.4g}"


def cells(row: dict) -> list[str]:
    metric = row["metric"]
    ours = number(row["mean"], metric)
    if row["std"] is not None:
        ours += f" ± {number(row['std'], metric)}"
    scale = row["scale"] + (f", {row['epochs']} epochs" if "epochs" in row else "")
    scale += "" if row.get("precision", "fp32") == "fp32" else f", {row['precision']}"
    published = number(row["published"], metric)
    if row.get("poster") is not None:
        published += f" (poster {number(row['poster'], metric)})"
    return [
        row["row"], METRICS.get(metric, metric), published, ours, str(row["n"]),
        number(_difference(row["mean"], row["published"]), metric), scale,
    ]  # fmt: skip


HEADINGS = ["row", "metric", "published", "ours", "n", "difference", "scale"]


def markdown(rows: Iterable[dict]) -> str:
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    return "\n".join(lines + [f"| {' | '.join(cells(row))} |" for row in rows]) + "\n"


def as_html(rows: Iterable[dict]) -> str:
    head = "".join(f"<th>{h}</th>" for h in HEADINGS)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>\n'


def as_json(rows: list[dict]) -> str:
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
