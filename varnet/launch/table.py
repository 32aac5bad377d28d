"""The table at the end of a run, in the paper's columns."""

from rich.console import Console
from rich.table import Table


def print_table(metrics: dict) -> None:
    """Print accuracies, the ELBO and log alpha of a finished run."""
    k = metrics["samples"]
    table = Table(title=f"{metrics['name']}, seed {metrics['seed']}, {metrics['epochs']} epochs", title_justify="left")
    for column in ("1 samp.", "Det.", f"{k} samp.", f"zero-mean, {k} samp.", "ELBO", "data term", "KL"):
        table.add_column(column, justify="right")
    accuracies = [metrics[key] for key in ("acc_1", "acc_det", "acc_k", "acc_zero_mean_k")]
    table.add_row(
        *("-" if a is None else f"{a:.2f} %" for a in accuracies),
        *(f"{metrics[key]:.4g}" for key in ("elbo", "data_term", "kl")),
    )
    console = Console(width=None if Console().is_terminal else 110)
    console.print(table)
    if metrics["log_alpha"]:
        console.print("log alpha: " + ", ".join(f"{name} {value:.2f}" for name, value in metrics["log_alpha"].items()))
