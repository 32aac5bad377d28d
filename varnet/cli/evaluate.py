"""Every prediction mode, uncertainty, weight samples and pruning of a finished run:

python scripts/evaluate.py RUN [RUN ...] [eval.samples=100 eval.ood=cifar10 ...]     --help lists the keys

RUN is a run's folder; its own configuration says which data and model. Prints a table, and writes evaluation.json and
pictures into the folder (or into out=FOLDER). Several runs are evaluated as one deep ensemble, which needs out=FOLDER;
a file snapshot_EPOCH.pt in a run's folder counts as a run, and so does the name of a stored network (networks/), whose
numbers go to outputs/stored/NAME.
"""

import json
from pathlib import Path

from omegaconf import OmegaConf

from varnet.base import terminal
from varnet.base.invocation import as_typed
from varnet.runs.composing import CONFIGS

DEFAULTS = CONFIGS / "evaluate.yaml"
RESULT = "evaluation.json"


def main(arguments: list[str]) -> int:
    if not arguments or {"-h", "--help"} & set(arguments):
        print(as_typed(__doc__ + "\n" + DEFAULTS.read_text(encoding="utf-8")), end="")
        return 0 if arguments else 2

    from varnet.base.device import find, tune_cpu
    from varnet.launch.command import check_unlike, folder_for, places_and_overrides, writable
    from varnet.launch.ending import guarded
    from varnet.report.analysis import Analysis, settings
    from varnet.runs.members import open_ensemble
    from varnet.runs.opening import open_finished
    from varnet.runs.overrides import named_code

    def work() -> None:
        places, overrides = places_and_overrides(arguments)
        options = settings(OmegaConf.load(DEFAULTS), overrides)
        device = find(options.device)
        tune_cpu(options.threads)
        single = len(places) == 1 and places[0].suffix != ".pt"
        how = (options.data_dir, named_code(options))
        run = open_finished(places[0], *how) if single else open_ensemble(places, *how)
        folder = folder_for(places, options.out)
        analysis = Analysis(run, options, device)
        check_unlike(folder / RESULT, lambda before: alike(before, analysis.results), "other runs")
        writable(folder)
        write(analysis.all(), folder)
        show(analysis.results, folder)

    return guarded(work)


def alike(before: dict, now: dict) -> bool:
    """Whether evaluation.json is of the same run, or of an ensemble of the same ones."""

    def about(results: dict) -> object:
        run = results["run"]
        return {Path(member).resolve() for member in run.get("members", ())} or (run["name"], run["seed"])

    return about(before) == about(now)


def write(analysis, folder: Path) -> None:
    from varnet.base.files import write_atomically
    from varnet.base.plots import rendered

    write_atomically(folder / RESULT, (json.dumps(analysis.results, indent=2) + "\n").encode())
    for name, figure in analysis.figures.items():
        write_atomically(folder / f"{name}.png", rendered(figure))


def show(results: dict, folder: Path) -> None:
    run, k, rows = results["run"], results["samples"], []
    columns = {"prediction": "left"} | dict.fromkeys(
        ("accuracy, %", "95 %", "NLL", "Brier", "ECE", "entropy", "mutual information"), "right"
    )
    for name, row in results["modes"].items():
        low, high = row["accuracy_interval"]
        values = (f"{row[key]:.4f}" for key in ("nll", "brier", "ece", "entropy", "mutual_information"))
        rows.append([name.replace("K", str(k)), f"{row['accuracy']:.2f}", f"{low:.2f} to {high:.2f}", *values])
    terminal.console(130).print(terminal.table(columns, rows, f"{run['name']}, seed {run['seed']}"))
    terminal.show([*lines(results), f"written: {folder / 'evaluation.json'} and pictures beside it"], 130)


def lines(results: dict) -> list[str]:
    """One sentence for each analysis."""
    out = []
    for key in [key for key in results if key.startswith("elbo")]:
        e = results[key]
        error = "" if e["elbo_error"] is None else f" +- {e['elbo_error']:.2g}"
        name = key.replace("elbo", "ELBO")
        out.append(f"training set: {name} {e['elbo']:.4g}{error} = data term {e['data_term']:.4g} - KL {e['kl']:.4g}")
    if "weight_samples" in results:
        w = results["weight_samples"]
        out.append(
            f"{len(w['accuracy'])} draws of the weights: {w['mean']:.2f} +- {w['std']:.2f} % each "
            f"({w['min']:.2f} to {w['max']:.2f}), averaged {w['accuracy_of_average']:.2f} %"
        )
    if "pruning" in results:
        kept = ", ".join(f"{100 * r['fraction']:g} %: {r['acc_k']:.2f}" for r in results["pruning"])
        out.append(f"accuracy after removing weights: {kept}")
    if "rotation" in results:
        turned = ", ".join(f"{r['angle']:g}: {r['accuracy']:.1f} ({r['entropy']:.2f})" for r in results["rotation"])
        out.append(f"accuracy (entropy) by angle: {turned}")
    if "ood" in results:
        o = results["ood"]
        by = f"{o['auroc_entropy']:.3f} by entropy, {o['auroc_mutual_information']:.3f} by mutual information"
        out.append(f"outliers ({o['dataset']}): AUROC {by}")
    return out
