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
    from varnet.report.predictive import Predictive
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
        analysis = (Analysis if run.likelihood.classes else Predictive)(run, options, device)
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
    run, k = results["run"], results["samples"]
    classes = "accuracy" in results["modes"]["deterministic"]
    columns, cells = (COLUMNS, _of_classes) if classes else (_columns(results["modes"]), _of_numbers)
    rows = [[name.replace("K", str(k)), *cells(row)] for name, row in results["modes"].items()]
    sides = {"prediction": "left"} | dict.fromkeys(columns, "right")
    terminal.console(130).print(terminal.table(sides, rows, f"{run['name']}, seed {run['seed']}"))
    terminal.show([*lines(results), f"written: {folder / 'evaluation.json'} and pictures beside it"], 130)


COLUMNS = ("accuracy, %", "95 %", "NLL", "Brier", "ECE", "entropy", "mutual information")
LABELS = {
    "acc": "accuracy, %", "rmse": "RMSE", "nll": "NLL", "coverage": "in 95 %, %", "calibration": "calibration error, %",
    "brier": "Brier", "ece": "ECE", "aleatoric": "aleatoric", "epistemic": "epistemic",
}  # fmt: skip


def _of_classes(row: dict) -> list[str]:
    low, high = row["accuracy_interval"]
    values = (f"{row[key]:.4f}" for key in ("nll", "brier", "ece", "entropy", "mutual_information"))
    return [f"{row['accuracy']:.2f}", f"{low:.2f} to {high:.2f}", *values]


def _columns(modes: dict) -> list[str]:
    return [LABELS[key] for key in modes["deterministic"]]


def _of_numbers(row: dict) -> list[str]:
    return [f"{value:.4g}" for value in row.values()]


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
        what = next(iter(w))  # accuracy, or what else is measured
        digits, unit = (".2f", " %") if what == "accuracy" else (".4g", "")
        out.append(
            f"{len(w[what])} draws of the weights: {'' if unit else what + ' '}{w['mean']:{digits}} +- "
            f"{w['std']:{digits}}{unit} each ({w['min']:{digits}} to {w['max']:{digits}}), averaged "
            f"{w[f'{what}_of_average']:{digits}}{unit}"
        )
    if "pruning" in results:
        what = next(key for key in results["pruning"][0] if key.endswith("_k"))
        digits = ".2f" if what == "acc_k" else ".4g"
        kept = ", ".join(f"{100 * r['fraction']:g} %: {r[what]:{digits}}" for r in results["pruning"])
        out.append(f"{'accuracy' if what == 'acc_k' else what[:-2]} after removing weights: {kept}")
    if "rotation" in results:
        turned = ", ".join(f"{r['angle']:g}: {r['accuracy']:.1f} ({r['entropy']:.2f})" for r in results["rotation"])
        out.append(f"accuracy (entropy) by angle: {turned}")
    if "ood" in results:
        o = results["ood"]
        by = f"{o['auroc_entropy']:.3f} by entropy, {o['auroc_mutual_information']:.3f} by mutual information"
        out.append(f"outliers ({o['dataset']}): AUROC {by}")
    return out
