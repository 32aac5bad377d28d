"""Attack finished runs by gradient, as Figure 7 does, and report how many attacks succeed by iteration:

python scripts/attack.py RUN [RUN ...] [iterations=40 samples=10 ...]     keys: configs/attack.yaml

RUN is a run's folder, or a file snapshot_EPOCH.pt in one. Runs that differ only in their seeds are one network, whose
rates are averaged. Prints a table, and writes attack.json and attack.png into the folder (or into out=FOLDER).
A low rate alone is no robustness: stochastic networks are attacked again through more samples (eot=50), and the others
are shown the images made on the first network (transfer=true).
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from varnet.run import Finished

DEFAULTS = Path(__file__).resolve().parent.parent / "configs" / "attack.yaml"


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__ + "\n" + DEFAULTS.read_text(), end="")
        return 0 if arguments else 2

    from varnet.command import folder_for, guarded, places_and_overrides
    from varnet.device import tune_cpu
    from varnet.ensemble import open_members

    def work() -> None:
        places, overrides = places_and_overrides(arguments)
        options = settings(overrides)
        folder = folder_for(places, options.out)
        tune_cpu(options.threads)
        members = open_members(places, options.data_dir)
        results, chart = attacked(dict(zip(places, members, strict=True)), options)
        write(results, chart, folder)
        show(results, folder)

    return guarded(work)


def settings(overrides: list[str]) -> DictConfig:
    """What varnet.attack.Attack does not check itself."""
    from varnet.config import SWITCH, between, or_null, overridden, whole

    checks = {
        "threads": or_null(between(1, 1024)), "ensemble": SWITCH, "images": whole(1), "candidates": whole(1),
        "eot": whole(0), "transfer": SWITCH,
    }  # fmt: skip
    return overridden(OmegaConf.load(DEFAULTS), overrides, checks)


def attacked(runs: "dict[Path, Finished]", options: DictConfig) -> "tuple[dict, Figure]":
    """(what attack.json says, the figure)"""
    from varnet import robustness
    from varnet.attack import Attack, Pixels
    from varnet.config import ConfigError
    from varnet.device import find
    from varnet.ensemble import Ensemble
    from varnet.run import commit

    keys = ("method", "iterations", "step", "epsilon", "targeted", "samples", "random_start", "seed")
    attack = Attack(**{key: options[key] for key in keys})
    if 0 < options.eot <= attack.samples:
        raise ConfigError(f"eot={options.eot} is no more than samples={attack.samples}: use a larger number, or 0")
    first = next(iter(runs.values()))
    data, where = first.data, find(options.device)
    if data.test_x.dim() != 4:
        raise ConfigError(f"dataset={data.name} has no images: attacks change pixels, take runs on images")
    names = labels(runs)
    networks: dict = {}
    for place, name in names.items():
        networks.setdefault(name, []).append(Pixels(runs[place].model, data.mean, data.std).to(where))
    source = next(iter(networks)) if options.transfer else None
    if options.ensemble:
        members = [model for several in networks.values() for model in several]
        networks[f"ensemble of {len(members)}"] = Ensemble(members)
    x, y = (values[: options.candidates].to(where) for values in (data.test_x, data.test_y))
    lines = robustness.experiment(networks, x, y, data.classes, attack, options.images, options.eot or None, source)
    members = {
        str(place): {"network": name, "seed": runs[place].cfg.seed, "commit": runs[place].metrics.get("commit")}
        for place, name in names.items()
    }
    rows = robustness.results(lines, robustness.milestones(attack.iterations))
    chart = robustness.figure(lines, f"{data.name}, {lines[0]['images']} images")
    about = {"attack": vars(attack), "runs": members, "attack_commit": commit()}
    if source and (caution := alike(runs, names)):
        about["caution"] = caution
    return {**about, "lines": lines, "rows": rows}, chart


def alike(runs: "dict[Path, Finished]", names: dict[Path, str]) -> str | None:
    """Networks of one seed begin with the same weights, and share adversarial images."""
    places: dict[str, list[Path]] = {}
    for place, name in names.items():
        places.setdefault(name, []).append(place)
    source, *victims = places.values()
    made_on = source[-1]
    same = [place for place, *_ in victims if runs[place].cfg.seed == runs[made_on].cfg.seed]
    if not same:
        return None
    return f"{same[0]} began with the weights of {made_on}, whose images it was shown: name another seed for a transfer"


def labels(runs: "dict[Path, Finished]") -> dict[Path, str]:
    """The name of each run; where unlike runs have one name, with the folder of the first of its kind."""
    from varnet.config import identity

    kinds: dict[str, list[Path]] = {}
    for place, found in runs.items():
        snapshot = place.name if place.suffix == ".pt" else ""
        kind = json.dumps([identity(found.cfg) | {"seed": None}, snapshot], sort_keys=True, default=str)
        kinds.setdefault(kind, []).append(place)
    names = [str(runs[places[0]].cfg.name) for places in kinds.values()]
    return {
        place: name if names.count(name) == 1 else f"{name} ({'/'.join(places[0].parts[-2:])})"
        for name, places in zip(names, kinds.values(), strict=True)
        for place in places
    }


def write(results: dict, chart: "Figure", folder: Path) -> None:
    from varnet.checkpoint import write_atomically
    from varnet.plots import rendered

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "attack.json", (json.dumps(results, indent=2) + "\n").encode())
    write_atomically(folder / "attack.png", rendered(chart))


def show(results: dict, folder: Path) -> None:
    from varnet.robustness import milestones

    console = Console(width=None if sys.stdout.isatty() else 130)
    attack, lines = results["attack"], results["lines"]
    kind = "" if attack["targeted"] else "un"
    title = f"successful attacks, % ({attack['method']}, {kind}targeted, {lines[0]['images']} images)"
    table = Table(title=title, title_justify="left")
    steps = milestones(attack["iterations"])
    for column in ("network", "attack", "n", *(f"{i} steps" for i in steps), "95 % at the end"):
        table.add_column(column, justify="left" if column in ("network", "attack") else "right")
    for line in lines:
        rates = (f"{line['rate'][i]:.1f}" for i in steps)
        interval = f"{line['low'][-1]:.1f} to {line['high'][-1]:.1f}"
        table.add_row(line["network"], line["attack"], str(line["n"]), *rates, interval)
    console.print(table)
    if "caution" in results:
        console.print(f"caution: {results['caution']}", highlight=False, soft_wrap=True)
    console.print(f"written: {folder / 'attack.json'} and attack.png beside it", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
