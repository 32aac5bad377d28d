"""What is measured on a finished run whose targets are numbers: errors, likelihoods, calibration of intervals, the two
parts of the uncertainty, weight samples, pruning; of one input and one target a picture of the curve and its bands."""

from typing import Any

import torch

from varnet.base import plots
from varnet.errors import ConfigError
from varnet.evaluation import numbers
from varnet.evaluation.metrics import check_numbers
from varnet.evaluation.mixtures import Mixture, mixture, weight_mixture
from varnet.evaluation.predictions import batch_statistics
from varnet.evaluation.pruning import prune
from varnet.report.analysis import MODES, OPTIONS, Analysis

CURVE_SAMPLES = 200  # of the picture of a curve
CURVE_POINTS = 300
MARGIN = 0.15  # of the range of the inputs, on both sides of it


class Predictive(Analysis):
    """As Analysis, of mixtures; there are no classes to turn images into and no entropies of outliers."""

    def all(self) -> "Predictive":
        """Measure everything that the options ask for and the likelihood has."""
        if self.options.eval.ood:
            raise ConfigError("is for classes, by their entropies: leave it out", "eval.ood", self.options.eval.ood)
        super().all()
        if self.run.data.in_shape == (1,) and self.run.data.targets == 1 and self._has("rmse"):
            self.curve()
        return self

    def rotation(self) -> None:
        """Turned images have no error that one would wait for."""

    def modes(self) -> None:
        """Every mode; those that change nothing in this model are left out."""
        known = {mode: self._mixture(mode) for mode in self._modes_that_differ()}
        shown = _by_name(known)
        self.results["modes"] = {name: numbers.summary(found) for name, found in shown.items()}
        if self.options.eval.batch_statistics:
            with batch_statistics(self.model):  # not folded: a batch with others in it is another
                by_batch = _by_name({mode: self._mixture(mode, fold=False) for mode in known})
            for name, found in by_batch.items():
                self.results["modes"][f"{name}, batch norm by batch"] = numbers.summary(found)
        self.sampled = known.get("sample", known["deterministic"])
        if self._has("coverage"):
            self._calibration(shown)

    def _has(self, measure: str) -> bool:
        return measure in self.run.likelihood.measures()

    def _calibration(self, shown: dict[str, Mixture]) -> None:
        """Coverage of central intervals against their level."""
        lines = {
            name.replace("K", str(self.samples)): numbers.coverages(found)
            for name, found in shown.items()
            if MODES[name][0] in ("deterministic", "sample")
        }
        levels = [100 * level for level in numbers.LEVELS]
        self.results["coverage"] = {"levels": levels, **lines}
        diagonal = {"calibrated": levels}
        words = ("level of the interval, %", "targets inside, %")
        self.figures["coverage"] = plots.curves(levels, lines | diagonal, *words, self.title)

    def _mixture(self, mode: str, model: Any = None, fold: bool = True) -> Mixture:
        samples = 1 if mode == "deterministic" else self.samples
        layers = self.layers if mode in ("zero_mean", "permuted") else "all"
        model = self.model if model is None else model
        found = mixture(
            model, self.batches(), self.run.likelihood, mode, samples, layers, self.options.seed,
            self.fold if fold else None,
        )  # fmt: skip
        check_numbers(found.outputs)
        return found

    def weight_samples(self) -> None:
        """The first measure of the likelihood, of single draws of the weights (as in Figure 4)."""
        draws, what = self.options.eval.draws, self._first
        found = weight_mixture(self.model, self.batches(), self.run.likelihood, draws, self.options.seed)
        each = [Mixture(found.y, out[None], found.likelihood) for out in found.outputs]
        values = torch.tensor([numbers.MEASURES[what](one) for one in each], dtype=torch.double)
        average = numbers.MEASURES[what](found)
        self.results["weight_samples"] = {
            what: values.tolist(), "mean": float(values.mean()), "std": float(values.std(correction=min(1, draws - 1))),
            "min": float(values.min()), "max": float(values.max()), f"{what}_of_average": average,
        }  # fmt: skip
        figure = plots.histograms({"one draw of the weights": values.numpy()}, plots.YLABELS[what], self.title)
        figure.axes[0].axvline(average, color="#c44e52", label=f"average of {draws} draws")
        figure.axes[0].legend(frameon=False)
        self.figures["weight_samples"] = figure

    @property
    def _first(self) -> str:
        return self.run.likelihood.measures()[0]

    def pruning(self) -> None:
        """The first measure of the likelihood by the fraction of weights that are removed (as in Figure 5)."""
        chosen, what, rows = self.options.eval, self._first, []
        for fraction in chosen.fractions:
            try:
                pruned = prune(self.model, fraction, self.layers, chosen.prune_by)
            except ConfigError as error:  # of a layer that has no such order
                raise error.called(OPTIONS.get(error.key, error.key)) from error
            measured = {
                f"{what}_{key}": numbers.MEASURES[what](self._mixture(mode, pruned))
                for key, mode in (("k", "sample"), ("det", "deterministic"))
            }
            rows.append({"fraction": float(fraction), **measured})
        self.results["pruning"] = rows
        lines = {f"{self.samples} samples": [r[f"{what}_k"] for r in rows]}
        lines["deterministic"] = [r[f"{what}_det"] for r in rows]
        fractions = [100 * r["fraction"] for r in rows]
        self.figures["pruning"] = plots.curves(
            fractions, lines, "weights removed, %", plots.YLABELS[what], self.title
        )  # fmt: skip

    def curve(self) -> None:
        """The mean over the inputs, and bands of two standard deviations: of the weights, and with the noise."""
        data = self.run.data
        low, high = float(data.train_x.min()), float(data.train_x.max())
        margin = MARGIN * (high - low)
        x = torch.linspace(low - margin, high + margin, CURVE_POINTS)[:, None]
        y = data.train_y[:1].expand(len(x), -1)  # not looked at
        found = mixture(
            self.model, self._loader(x, y), self.run.likelihood, "sample", max(CURVE_SAMPLES, self.samples),
            seed=self.options.seed, fold=self.fold,
        )  # fmt: skip
        points = (data.train_x[:, 0].numpy(), data.train_y[:, 0].numpy())
        columns = {key: getattr(found, key)[:, 0].numpy() for key in ("mean", "epistemic", "aleatoric")}
        self.figures["curve"] = plots.bands(x[:, 0].numpy(), **columns, points=points, title=self.title)


def _by_name(known: dict[str, Mixture]) -> dict[str, Mixture]:
    """Under the names that results have: one sample, and all K."""
    return {name: known[mode] if many else known[mode].first for name, (mode, many) in MODES.items() if mode in known}
