"""Attack finished runs by gradient, as Figure 7 does, and report how many attacks succeed by iteration:

python scripts/attack.py RUN [RUN ...] [iterations=40 samples=10 ...]     --help lists the keys

RUN is a run's folder, a file snapshot_EPOCH.pt in one, or the name of a stored network (networks/). Runs that differ
only in their seeds are one network: its rate is the average over them (n). Prints a table, and writes attack.json and
attack.png into the run's folder (of a stored network outputs/stored/NAME), or into out=FOLDER, which several runs and
snapshots need.

A low rate alone is no robustness. So the first run of every stochastic network is attacked again with steps through
more samples (eot=50), and the images made on the network named first are shown to the others (transfer=true): name a
deterministic network first. Networks of one seed begin with the same weights and share such images, so those of every
seed are shown to a run of another seed, where there is one; n counts these pairs. ensemble=each adds the deep ensemble
of each network's seeds: with a few seeds of a deterministic, a dropout and a variance network this is Figure 7 of your
own runs.

Time: four LeNet-5 on MNIST, two of them stochastic, with 200 images and 120 iterations take 1.3 minutes on two cores.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from varnet.base import terminal
from varnet.base.invocation import as_typed
from varnet.runs.composing import CONFIGS

if TYPE_CHECKING:
    import torch

    from varnet.attack.gradient import Attack
    from varnet.data import Dataset
    from varnet.runs.networks import Networks

DEFAULTS = CONFIGS / "attack.yaml"
RESULT = "attack.json"


def main(arguments: list[str]) -> int:
    if not arguments or {"-h", "--help"} & set(arguments):
        print(as_typed(__doc__ + "\n" + DEFAULTS.read_text(encoding="utf-8")), end="")
        return 0 if arguments else 2

    from varnet.attack.rates import compared
    from varnet.base.device import find, tune_cpu
    from varnet.launch.command import check_unlike, folder_for, places_and_overrides, writable
    from varnet.launch.ending import guarded
    from varnet.runs.members import open_members
    from varnet.runs.networks import grouped
    from varnet.runs.opening import check_classes
    from varnet.runs.overrides import named_code

    def work() -> None:
        places, overrides = places_and_overrides(arguments)
        options = settings(overrides)
        attack, device = attack_of(options), find(options.device)
        tune_cpu(options.threads)
        runs = open_members(places, options.data_dir, named_code(options))
        check_classes(runs[0], "attacks, which go towards a class")
        networks = grouped(dict(zip(places, runs, strict=True)))
        folder = folder_for(places, options.out)
        check_possible(networks, options)
        about = described(networks, options)
        check_unlike(folder / RESULT, lambda before: alike(before, about), "another attack")
        writable(folder)
        results = about | {"lines": attacked(networks, attack, options, device)}
        results["comparisons"] = compared(results["lines"])
        results["cautions"] += few(results)
        write(results, folder)
        show(results, folder)

    return guarded(work)


def settings(overrides: list[str]) -> DictConfig:
    """What varnet.attack.Attack does not check itself."""
    from varnet.base.checks import FOLDER, SWITCH, THREADS, one_of, or_null, whole
    from varnet.runs.overrides import CODE, overridden

    checks = CODE | {
        "threads": THREADS, "data_dir": or_null(FOLDER), "out": or_null(FOLDER),
        "ensemble": one_of(True, False, "each"), "images": whole(1), "candidates": whole(1), "eot": whole(0, 10**6),
        "transfer": SWITCH,
    }  # fmt: skip
    return overridden(OmegaConf.load(DEFAULTS), overrides, checks)


def attack_of(options: DictConfig) -> "Attack":
    from varnet.attack.gradient import Attack
    from varnet.errors import ConfigError

    keys = ("method", "iterations", "step", "epsilon", "targeted", "samples", "random_start", "seed")
    attack = Attack(**{key: options[key] for key in keys})
    if 0 < options.eot <= attack.samples:
        raise ConfigError(f"is no more than samples={attack.samples}: use a larger number, or 0", "eot", options.eot)
    return attack


def check_possible(networks: "Networks", options: DictConfig) -> None:
    from varnet.errors import ConfigError

    if data_of(networks).test_x.dim() != 4:
        name = data_of(networks).name
        raise ConfigError("has no images: attacks change pixels, take runs on images", "dataset", name)
    together = max if options.ensemble == "each" else sum
    if options.ensemble and together(map(len, networks.values())) == 1:
        kind = "seeds of a network" if options.ensemble == "each" else "runs"
        raise ConfigError(f"needs several {kind}: name more, or leave it out", "ensemble", options.ensemble)


def described(networks: "Networks", options: DictConfig) -> dict:
    """What attack.json says beside the rates."""
    from varnet.runs.networks import caution
    from varnet.runs.provenance import commit

    runs = {
        str(place): {"network": name, "seed": run.cfg.seed, "commit": run.metrics.get("commit")}
        for name, group in networks.items()
        for place, run in group.items()
    }
    beside = ("device", "threads", "data_dir", "out", "model", "dataset", "likelihood")
    chosen = {key: value for key, value in options.items() if key not in beside}
    related = caution(networks) if options.transfer else None
    return {
        "dataset": data_of(networks).name, "options": chosen, "runs": runs, "attack_commit": commit(),
        "cautions": [related] if related else [],
    }  # fmt: skip


def few(results: dict) -> list[str]:
    """A sentence if there were not as many images to attack as asked for."""
    images, options = results["lines"][0]["images"], results["options"]
    if images == options["images"]:
        return []
    return [
        f"only {images} of the first test images are right in every network (images={options['images']}, "
        f"candidates={options['candidates']}): rates of so few say little, take more candidates or better networks"
    ]


def alike(before: dict, about: dict) -> bool:
    """Whether attack.json is of the same attack on the same runs, by whatever path."""

    def runs(results: dict) -> dict:
        return {Path(place).resolve(): about for place, about in results["runs"].items()}

    return before["options"] == about["options"] and runs(before) == runs(about)


def attacked(networks: "Networks", attack: "Attack", options: DictConfig, device: "torch.device") -> list[dict]:
    import torch

    from varnet.attack.robustness import experiment
    from varnet.paper.fig7 import of_pixels, tell
    from varnet.runs.custom import CUSTOM
    from varnet.runs.networks import seeds_of

    data = data_of(networks)
    models = {name: [of_pixels(run, device) for run in runs.values()] for name, runs in networks.items()}
    source = next(iter(models)) if options.transfer else None
    models |= ensembles(models, options.ensemble)
    x, y = (values[: options.candidates].to(device) for values in (data.test_x, data.test_y))
    if any(run.cfg.model.name == CUSTOM for runs in networks.values() for run in runs.values()):
        x = x.clone(memory_format=torch.contiguous_format)  # as such a network was trained
    eot, seeds = options.eot or None, seeds_of(networks)
    return experiment(models, x, y, data.classes, attack, options.images, eot, source, tell, seeds)


def ensembles(models: dict[str, list], which: bool | str) -> dict:
    """All networks as one, or the seeds of each one."""
    from varnet.evaluation.ensemble import Ensemble

    if which == "each":
        sets = {f"{name}, ensemble": several for name, several in models.items() if len(several) > 1}
    else:
        sets = {"ensemble": [model for several in models.values() for model in several]} if which else {}
    return {f"{name} of {len(members)}": Ensemble(members) for name, members in sets.items()}


def data_of(networks: "Networks") -> "Dataset":
    return next(iter(next(iter(networks.values())).values())).data


def write(results: dict, folder: Path) -> None:
    from varnet.attack.rates import figure
    from varnet.base.files import write_atomically
    from varnet.base.plots import rendered

    lines = results["lines"]
    chart = figure(lines, f"{results['dataset']}, {lines[0]['images']} images")
    write_atomically(folder / RESULT, (json.dumps(results, indent=2) + "\n").encode())
    write_atomically(folder / "attack.png", rendered(chart))


def show(results: dict, folder: Path) -> None:
    from varnet.attack.rates import milestones

    options, lines = results["options"], results["lines"]
    kind = "" if options["targeted"] else "un"
    title = f"successful attacks, % ({options['method']}, {kind}targeted, {lines[0]['images']} images)"
    steps, rows = milestones(options["iterations"]), []
    columns = {"network": "left", "attack": "left"} | dict.fromkeys(
        ("n", *(f"{i} steps" for i in steps), "95 % at the end"), "right"
    )
    for line in lines:
        rates = (f"{line['rate'][i]:.1f}" for i in steps)
        interval = f"{line['low'][-1]:.1f} to {line['high'][-1]:.1f}"
        rows.append([line["network"], line["attack"], str(line["n"]), *rates, interval])
    terminal.console(130).print(terminal.table(columns, rows, title))
    terminal.show((f"caution: {caution}" for caution in results["cautions"]), 130)
    terminal.show([f"written: {folder / 'attack.json'} and attack.png beside it"], 130)
