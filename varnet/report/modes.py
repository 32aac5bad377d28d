"""Evaluations of networks by the training set's batch norm and by each batch's own -> a table beside published numbers.

The file has for each network what scripts/evaluate.py wrote with eval.batch_statistics=true.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from varnet.errors import ConfigError
from varnet.report.row import Row
from varnet.report.tables import markdown_table, number

HEADINGS = ["run", "batch norm", "ELBO", "data term", "deterministic, %", "1 sample, %", "20 samples, %"]
PUBLISHED = ("elbo", "data_term", "acc_det", "acc_1", "acc_k")  # in the order of these columns
NORMS = {"training set": "", "test or training batch of 200": ", batch norm by batch"}  # words -> ending of a key
PREDICTIONS = ("deterministic", "one sample", "K samples")


def modes(path: Path, published: Iterable[Row]) -> str:
    """Markdown: of each network what is in print, then both modes."""
    values = {(row.row, row.metric): row.published for row in published}
    try:
        lines = []
        for name, found in json.loads(path.read_text()).items():
            printed = ["" if values.get((name, m)) is None else number(values[name, m], m) for m in PUBLISHED]
            lines.append([f"{name}, published", "", *printed])
            lines += [[name, norm, *_numbers(found, ending)] for norm, ending in NORMS.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} holds no evaluations of networks: restore it, or delete it") from error
    return markdown_table(HEADINGS, lines)


def _numbers(found: dict, ending: str) -> list[str]:
    bound = found[f"elbo{ending}"]
    error = f" ± {number(bound['elbo_error'])}" if bound["elbo_error"] else ""
    accuracies = (found["modes"][f"{name}{ending}"]["accuracy"] for name in PREDICTIONS)
    return [number(bound["elbo"]) + error, number(bound["data_term"]), *(number(v, "acc") for v in accuracies)]
