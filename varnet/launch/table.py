"""The table at the end of a run, in the paper's columns."""

from varnet.base import terminal


def print_table(metrics: dict) -> None:
    """Print accuracies, the ELBO and log alpha of a finished run."""
    k = metrics["samples"]
    columns = ("1 samp.", "Det.", f"{k} samp.", f"zero-mean, {k} samp.", "ELBO", "data term", "KL")
    accuracies = [metrics[key] for key in ("acc_1", "acc_det", "acc_k", "acc_zero_mean_k")]
    row = [
        *("-" if a is None else f"{a:.2f} %" for a in accuracies),
        *(f"{metrics[key]:.4g}" for key in ("elbo", "data_term", "kl")),
    ]
    title = f"{metrics['name']}, seed {metrics['seed']}, {metrics['epochs']} epochs"
    console = terminal.console(110)
    console.print(terminal.table(dict.fromkeys(columns, "right"), [row], title))
    if metrics["log_alpha"]:
        console.print("log alpha: " + ", ".join(f"{name} {value:.2f}" for name, value in metrics["log_alpha"].items()))
