"""The table at the end of a run, in the paper's columns."""

from varnet.base import terminal
from varnet.train.logger import headline


def print_table(metrics: dict) -> None:
    """Print accuracies (or errors), the ELBO and log alpha of a finished run."""
    k = metrics["samples"]
    columns = ("1 samp.", "Det.", f"{k} samp.", f"zero-mean, {k} samp.", "ELBO", "data term", "KL")
    what = headline(metrics) or "acc"
    measured = [metrics[f"{what}_{mode}"] for mode in ("1", "det", "k", "zero_mean_k")]
    row = [
        *("-" if a is None else f"{a:.2f} %" if what == "acc" else f"{a:.4g}" for a in measured),
        *(f"{metrics[key]:.4g}" for key in ("elbo", "data_term", "kl")),
    ]
    title = f"{metrics['name']}, seed {metrics['seed']}, {metrics['epochs']} epochs"
    console = terminal.console(110)
    console.print(terminal.table(dict.fromkeys(columns, "right"), [row], title))
    if what != "acc":
        more = ("nll", "coverage", "calibration")
        found = ", ".join(f"{key} {metrics[f'{key}_k']:.4g}" for key in more if f"{key}_k" in metrics)
        terminal.show([f"{what} above, in the units of the targets; of {k} samples: {found}"], 110)
    if metrics["log_alpha"]:
        console.print("log alpha: " + ", ".join(f"{name} {value:.2f}" for name, value in metrics["log_alpha"].items()))
