"""The paper's figures from finished runs (Figures 1 to 5, 8 and 9). Each function returns (figure, numbers)."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from varnet.base import plots
from varnet.data import Dataset
from varnet.evaluation import metrics
from varnet.evaluation import predictions as evaluation
from varnet.evaluation.predictions import CPU_ROWS
from varnet.evaluation.pruning import pruning_curve
from varnet.nn.modes import predicting
from varnet.runs.opening import Finished

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = tuple["Figure", dict]
NOISE_SEED = 2019  # of Figure 1; not that of its points, which are normal too


def _panels(count: int, width: float = 3.3, height: float = 3.2, columns: int = 4, **options) -> tuple["Figure", list]:
    from matplotlib.figure import Figure

    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), dpi=120, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options).flatten().tolist()
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def _test_batches(data: Dataset) -> list:
    return data.loader("test", min(CPU_ROWS, len(data.test_y)), channels_last=len(data.in_shape) == 3)


def _standard_deviations(run: Finished, layer: str, data: torch.Tensor) -> torch.Tensor:
    """Of the outputs of a variational layer, for inputs of the network."""
    found = []
    with torch.no_grad(), predicting(run.model, "deterministic"):
        module = dict(run.model.named_children())[layer]
        hook = module.register_forward_pre_hook(lambda _m, inputs: found.append(inputs[0]))
        for part in data.split(CPU_ROWS):
            run.model(part)
        hook.remove()
    with torch.no_grad(), predicting(run.model, "sample"):
        return torch.cat([module.moments(x)[1] for x in found]).sqrt()


def toy_activations(runs: list[Finished]) -> Drawn:
    """Figure 1: samples of the two variance neurons, coloured by class; one panel for each seed."""
    figure, axes = _panels(len(runs))
    numbers = {}
    for axis, run in zip(axes, runs, strict=True):
        std = _standard_deviations(run, "dense5", run.data.train_x)
        noise = torch.randn(std.shape, generator=torch.Generator().manual_seed(NOISE_SEED))
        labels, by_neuron = run.data.train_y, _levels(std, run.data.train_y)
        kind = representation(by_neuron)
        for one, levels in zip("xy", by_neuron, strict=True):  # classes differ by orders of magnitude
            largest = 10.0 ** np.floor(np.log10(max(1e-3, *levels)))
            getattr(axis, f"set_{one}scale")("symlog", linthresh=max(1e-3, min(levels)))
            getattr(axis, f"set_{one}ticks")([-largest, 0, largest])
        for c in range(run.data.classes):
            axis.scatter(*(std * noise)[labels == c].numpy().T, s=3, alpha=0.5, label=f"class {c + 1}")
        axis.set(title=f"seed {run.cfg.seed}: {kind}", xlabel="neuron 1", ylabel="neuron 2")
        numbers[f"seed {run.cfg.seed}"] = {
            "kind": kind, "standard deviation by neuron and class": by_neuron, "acc_1": run.metrics["acc_1"],
            "acc_k": run.metrics["acc_k"],
        }  # fmt: skip
    axes[0].legend(frameon=False, fontsize=7, markerscale=2)
    return figure, numbers


def _levels(std: torch.Tensor, labels: torch.Tensor) -> list[list[float]]:
    """Median standard deviation of each neuron, by class."""
    return [[float(of_one[labels == c].median()) for c in labels.unique()] for of_one in std.T]


def representation(levels: list[list[float]]) -> str:
    """repeat: both neurons order the classes by variance alike; orthogonal: some two classes the other way round, by a
    factor of two in the standard deviation at least."""
    first, second = (torch.tensor(of_one).clamp_min(1e-12).log() for of_one in levels)
    above, above_too = (one[:, None] - one > math.log(2) for one in (first, second))  # class by class
    return "orthogonal" if bool((above & above_too.T).any()) else "repeat"


def kl_divergences() -> Drawn:
    """Figure 2: KL(q || p) of the three priors against log alpha, mu = 1; Student's t for several nu."""
    from varnet.nn.priors import ard, loguniform

    log_alpha = torch.linspace(-8, 8, 161, dtype=torch.double)
    lines = {
        "log-uniform": loguniform(log_alpha, estimator="exact"),
        "log-uniform, approximation": loguniform(log_alpha, estimator="approx"),
        "ARD": ard(log_alpha),
    }
    for nu in (1e-16, 1e-2, 0.1, 1.0):
        lines[f"Student's t, nu = {nu:g}"] = student_kl(log_alpha, nu)
    figure = plots.curves(
        log_alpha.tolist(), {k: v.tolist() for k, v in lines.items()}, "log alpha", "KL", "KL divergence per weight"
    )
    for line in figure.axes[0].lines:
        line.set_marker("")
        line.set_linestyle("--" if "approx" in line.get_label() or "1e-16" in line.get_label() else "-")
    figure.axes[0].legend(frameon=False)
    at = {"-4": 40, "0": 80, "4": 120}
    return figure, {name: {where: float(values[i]) for where, i in at.items()} for name, values in lines.items()}


def student_kl(log_alpha: torch.Tensor, nu: float, points: int = 200_001) -> torch.Tensor:
    """KL to Student's t up to its normaliser, mu = 1, by quadrature (eq. 10)."""
    eps = torch.linspace(-9, 9, points, dtype=torch.double)
    weight = (-0.5 * eps.square()).exp()
    weight /= weight.sum()
    sigma = (0.5 * log_alpha).exp()[:, None]
    inside = torch.stack([(weight * (nu + (1 + s * eps).square()).log()).sum() for s in sigma])
    constant = 0.5 * (np.euler_gamma + np.log(2))
    return -0.5 * log_alpha + 0.5 * (nu + 1) * inside + constant


def phase_transition(runs: dict[str, list[tuple[list[dict], dict]]]) -> Drawn:
    """Figures 3 and 8: label -> (history, metrics) of each seed. Mean over seeds, with a band if there are several."""
    figure, axes = _panels(2 * len(runs), width=4.4, height=2.8, columns=len(runs), sharex="col", sharey="row")
    numbers = {}
    for i, (label, found) in enumerate(runs.items()):
        top, bottom = axes[i], axes[len(runs) + i]
        for key, (name, colour) in plots.CURVES.items():
            _band(top, found, lambda row, key=key: row.get(key), name.format(k=found[0][1]["samples"]), colour)
        for layer in found[0][0][-1].get("log_alpha", {}):
            _band(bottom, found, lambda row, layer=layer: row["log_alpha"][layer]["mean"], layer)
        top.set(title=f"{label} (n = {len(found)})", ylim=(0, 101))
        bottom.set_xlabel("epoch")
        bottom.xaxis.get_major_locator().set_params(integer=True)
        numbers[label] = transition(found[0][0])
        for axis in (top, bottom):
            axis.grid(alpha=0.25)
    axes[0].set_ylabel("test accuracy, %")
    axes[len(runs)].set_ylabel("log alpha")
    for axis in (axes[0], axes[len(runs)]):
        if axis.lines:
            axis.legend(frameon=False, fontsize=8)
    return figure, numbers


def _band(axis, found: list, value: Callable[[dict], float | None], label: str, colour: str | None = None) -> None:
    """Of the runs with as many points as there are, at the same epochs; the label says so where these are not all."""
    series = [{row["epoch"]: v for row in history if (v := value(row)) is not None} for history, _ in found]
    epochs = list(max(series, key=len))
    if not epochs:
        return
    values = np.array([list(s.values()) for s in series if list(s) == epochs], float)
    label += f" (n = {len(values)})" if len(values) < len(found) else ""
    (line,) = axis.plot(epochs, values.mean(0), label=label, color=colour, lw=1.6)
    if len(values) > 1:
        spread = values.std(0, ddof=1)
        axis.fill_between(epochs, values.mean(0) - spread, values.mean(0) + spread, color=line.get_color(), alpha=0.2)


def transition(history: list[dict]) -> dict:
    """Where the zero-mean network starts to work, and the deterministic one stops."""
    rows = [row for row in history if row.get("acc_zero_mean_k") is not None]
    best = max((row["acc_k"] for row in rows), default=0)
    works = next((row for row in rows if row["acc_zero_mean_k"] > best / 2), None)
    stops = None
    for row in reversed(rows):
        if row["acc_det"] > best / 2:
            break
        stops = row
    return {
        "zero-mean accuracy above half of the best from epoch": works and works["epoch"],
        "deterministic accuracy below half of the best from epoch": stops and stops["epoch"],
    }


def weight_samples(run: Finished, averages: int = 3, samples: int = 200) -> Drawn:
    """Figure 4: accuracy of single draws of the weights, and of averages of many of them."""
    batches = _test_batches(run.data)
    found = [evaluation.weight_samples(run.model, batches, samples, seed) for seed in range(averages)]
    single = np.concatenate([f.accuracy.numpy() for f in found])
    many = np.array([metrics.accuracy(f.average.log_probs, f.average.y) for f in found])
    values = {f"{len(single)} draws of the weights": single, f"{averages} averages of {samples} draws": many}
    figure = plots.histograms(values, "test accuracy, %", f"{run.cfg.name}, seed {run.cfg.seed}", bins=60)
    summary = {k: {"mean": float(v.mean()), "std": float(v.std(ddof=1)), "n": len(v)} for k, v in values.items()}
    return figure, summary


FRACTIONS = (
    0.0,
    0.2,
    0.4,
    0.6,
    0.7,
    0.8,
    0.85,
    0.9,
    0.92,
    0.94,
    0.95,
    0.96,
    0.97,
    0.975,
    0.98,
    0.985,
    0.99,
    0.995,
    0.999,
)


def pruning(run: Finished, samples: int = 20) -> Drawn:
    """Figure 5: accuracy against the fraction of sigmas of the variance layer that are removed."""
    rows = pruning_curve(run.model, _test_batches(run.data), FRACTIONS, samples, by="sigma")
    fractions = [100 * row["fraction"] for row in rows]
    title = f"{run.cfg.name}, seed {run.cfg.seed}: smallest sigmas of dense1 removed"
    lines = {f"{samples} samples": [row["acc_k"] for row in rows]}
    figure = plots.curves(fractions, lines, "sigmas removed, %", "test accuracy, %", title)
    return figure, {f"{f:g} %": row["acc_k"] for f, row in zip(fractions, rows, strict=True)}


def class_densities(run: Finished, layer: str = "dense1", neurons: int = 4, seed: int = 0) -> Drawn:
    """Figure 9: density of a neuron's activation averaged over the objects of a class, +- its standard deviation."""
    x = torch.cat([x for x, _ in _test_batches(run.data)])
    std, y = _standard_deviations(run, layer, x).double(), run.data.test_y
    chosen = torch.randperm(std.shape[1], generator=torch.Generator().manual_seed(seed))[:neurons].tolist()
    figure, axes = _panels(neurons)
    colours = _colours(run.data.classes)
    for axis, j in zip(axes, chosen, strict=True):
        reach = 3 * float(std[:, j].quantile(0.9))
        grid = torch.linspace(-reach, reach, 201, dtype=torch.double)
        for c in range(run.data.classes):
            own = std[y == c, j].clamp_min(1e-3 * reach)[:, None]
            density = (-0.5 * (grid / own).square()).exp() / (own * np.sqrt(2 * np.pi))
            mean, spread = density.mean(0), density.std(0)
            axis.plot(grid, mean, color=colours[c], lw=1.2, label=str(c))
            axis.fill_between(grid, (mean - spread).clamp_min(1e-9), mean + spread, color=colours[c], alpha=0.12, lw=0)
        top = max(float(line.get_ydata().max()) for line in axis.lines)
        axis.set(title=f"neuron {j}", xlabel="activation", yscale="log", ylim=(top / 3000, 2 * top))
    axes[0].legend(frameon=False, fontsize=7, ncols=2, title="class", title_fontsize=7)
    axes[0].set_ylabel("density")
    levels = {f"neuron {j}": [round(float(std[y == c, j].mean()), 4) for c in range(run.data.classes)] for j in chosen}
    return figure, {"mean standard deviation by class": levels}


def _colours(count: int) -> list:
    from matplotlib import colormaps

    return [colormaps["tab10"](i % 10) for i in range(count)]
