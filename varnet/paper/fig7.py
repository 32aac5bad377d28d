"""Figure 7 from finished runs: deterministic, dropout and variance networks and two deep ensembles under attack.

On MNIST the attacks take about nine minutes on two CPU cores, if nothing else runs there. Stopped, they go on after the
last line that was told.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from varnet.attack import rates, robustness
from varnet.attack.gradient import Attack, Pixels
from varnet.base import device
from varnet.base.files import write_atomically
from varnet.base.invocation import command
from varnet.evaluation.ensemble import Ensemble
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, figure
from varnet.report.row import Row, short
from varnet.report.tables import precision_option
from varnet.runs.opening import Finished
from varnet.runs.provenance import commit
from varnet.train.placing import placed

MEMBERS = 5  # of a deep ensemble (section 6.3)
STEP, SAMPLES = 0.5, 10  # section 6.3
ITERATIONS = {"fig7": 40, "fig7_mnist": 120}  # until most attacks succeed; strokes on black need a larger change
EOT = 50  # samples of the gradient that looks through the noise
IMAGES, CANDIDATES = 200, 500  # attacked, of the first ones of the test set
NETWORKS = {  # label -> experiment; the first is the source of transferred images
    "fig7": {
        "deterministic": "fig7_cifar10_deterministic",
        "dropout": "table2_cifar10_dropout",
        "variance": "table2_cifar10_variance",
    },
    "fig7_mnist": {
        "deterministic": "fig7_mnist_deterministic",
        "dropout": "fig7_mnist_dropout",
        "variance": "fig7_mnist_variance",
    },
}
OPTIONAL = {  # networks that are shown too, if they have been trained; predicted without their dropout
    "fig7_mnist": {"deterministic, trained with dropout": "fig7_mnist_deterministic_dropout"},
}
ENSEMBLES = {"deterministic": "deep ensemble", "variance": "variance ensemble"}


def members(asked: int, _scale: str) -> int:
    return max(asked, MEMBERS)


def once(target: str) -> tuple[str, ...]:
    """Experiments that are in no ensemble."""
    return tuple(experiment for label, experiment in NETWORKS[target].items() if label not in ENSEMBLES)


@figure(
    "fig7", "Figure 7: successful targeted attacks by iteration, VGG-like on CIFAR-10", *NETWORKS["fig7"].values(),
    seeds=members, once=once("fig7"),
)  # fmt: skip
def on_cifar10(library: Library) -> Drawn:
    return draw("fig7", library)


@figure(
    "fig7_mnist", "Figure 7 on MNIST: successful targeted attacks by iteration, LeNet-5",
    *NETWORKS["fig7_mnist"].values(), seeds=members, once=once("fig7_mnist"),
    optional=tuple(OPTIONAL["fig7_mnist"].values()),
)  # fmt: skip
def on_mnist(library: Library) -> Drawn:
    return draw("fig7_mnist", library)


def draw(target: str, library: Library, attack: Attack | None = None, images: int = IMAGES, eot: int = EOT) -> Drawn:
    """Every run of a network that is there is attacked; an ensemble has all of them, and says how many.

    A sample of the variance ensemble is one of each member: ten of them are ten of each network. The deep ensemble has
    the sources of the transferred images as its members, the variance ensemble networks that began as they did.
    """
    attack = attack or Attack(iterations=ITERATIONS[target], step=STEP, samples=SAMPLES)
    seeds = max(library.seeds, MEMBERS)
    runs = {label: library.opened(experiment, seeds) for label, experiment in NETWORKS[target].items()}
    for label, experiment in OPTIONAL.get(target, {}).items():
        if several := library.opened(experiment, seeds):
            runs[label] = [one._replace(model=without_dropout(one.model)) for one in several]
    first = next(iter(runs.values()))[0]
    data, where = first.data, device.find(library.option("device") or "auto")
    x, y = data.test_x[:CANDIDATES].to(where), data.test_y[:CANDIDATES].to(where)
    own = {label: [one.cfg.seed for one in several] for label, several in runs.items()}
    trained = {label: [one.metrics for one in several] for label, several in runs.items()}
    kept = Kept(library.unfinished(target), [vars(attack), images, eot, trained])
    lines = robustness.experiment(
        networks(runs, where), x, y, data.classes, attack, images, eot, next(iter(runs)), kept.add, own, kept.lines
    )
    precision = first.cfg.precision
    rows = rows_of(
        lines, rates.milestones(attack.iterations), scale=library.scale, epochs=first.metrics["epochs"],
        precision=precision,
        command=f"{command('reproduce')} {target} scale={library.scale}{precision_option(precision)}",
        commit=", ".join(sorted({short(one.metrics.get("commit")) for several in runs.values() for one in several})),
    )  # fmt: skip
    title = f"{data.name}, {first.cfg.model.name}, {lines[0]['images']} images"
    numbers = {"attack": vars(attack), "lines": lines, "comparisons": rates.compared(lines)}
    return Drawn(rates.figure(lines, title), numbers, rows)


def rows_of(lines: list[dict], at: Iterable[int], **about: Any) -> list[Row]:
    """Rates at some iterations. `about` goes into every row: scale, command, commit, ..."""
    rows, attacked_by = [], short(commit())
    for line in lines:
        kind = "" if line["attack"] == rates.WHITE_BOX else f" ({line['attack']})"
        for i in sorted({min(i, len(line["rate"]) - 1) for i in at}):
            metric = f"successful attacks after {i} iterations, %"
            numbers = line["rate"][i], line["std"] and line["std"][i], line["n"]
            more = {"low": line["low"][i], "high": line["high"][i], "images": line["images"]}
            more["attack_commit"] = attacked_by
            rows.append(Row(line["network"] + kind, metric, None, *numbers, more=more, **about))
    return rows


class Kept:
    """The lines of attacks that take long: in a file, so that one that was stopped goes on.

    Those of another attack, of other runs or of changed code do not count.
    """

    def __init__(self, file: Path | None, of: object):
        current = commit()
        self.file = None if str(current).endswith("-dirty") else file  # who knows what was changed
        self.of = json.dumps([current, of], default=str)
        self.lines = self._read()

    def _read(self) -> list[dict]:
        try:
            found = json.loads(self.file.read_text(encoding="utf-8")) if self.file else {}
            return found["lines"] if found["of"] == self.of else []
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def add(self, line: dict) -> None:
        tell(line)
        self.lines.append(line)
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, json.dumps({"of": self.of, "lines": self.lines}).encode())


def tell(line: dict) -> None:
    """The attacks take long."""
    print(f"{line['network']}, {line['attack']}: {line['rate'][-1]:.1f} % successful", flush=True)


def networks(runs: dict[str, list[Finished]], where: torch.device) -> robustness.Networks:
    """The runs by label, then the ensembles; all take raw pixels."""
    found = {label: [of_pixels(one, where) for one in several] for label, several in runs.items()}
    ensembles = {f"{name} of {len(found[label])}": Ensemble(found[label]) for label, name in ENSEMBLES.items()}
    return {**found, **ensembles}


def without_dropout(model: nn.Module) -> nn.Module:
    """The network as it predicts without noise."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    return model


def of_pixels(trained: Finished, where: torch.device) -> Pixels:
    """The network for raw pixels, in the memory format in which it was trained."""
    return placed(Pixels(trained.model, trained.data.mean, trained.data.std), trained.cfg, where)
