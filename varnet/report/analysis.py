"""Everything that is measured on a finished run: every mode of prediction, the ELBO, weight samples (Figure 4), pruning
(Figure 5), turned images and outliers -> numbers for evaluation.json and figures."""

from typing import Any

import torch
from omegaconf import DictConfig

from varnet.base import plots
from varnet.base.checks import COUNT, FOLDER, SEED, TEXT, THREADS, Check, list_of, number, one_of, or_null, whole
from varnet.base.text import in_picture
from varnet.data import NAMES, Loader, load
from varnet.errors import ConfigError
from varnet.evaluation import metrics
from varnet.evaluation import predictions as evaluation
from varnet.evaluation import shift as ood
from varnet.evaluation.ensemble import Ensemble
from varnet.evaluation.metrics import check_numbers
from varnet.evaluation.predictions import Predictions, predict
from varnet.evaluation.pruning import CRITERIA, pruning_curve
from varnet.nn.layers import layers_of
from varnet.nn.names import select
from varnet.runs.opening import Finished
from varnet.runs.overrides import CODE, overridden
from varnet.train.placing import placed, use_channels_last

MODES = {  # name -> (mode, whether K samples are averaged)
    "deterministic": ("deterministic", False),
    "one sample": ("sample", False),
    "K samples": ("sample", True),
    "zero-mean, one sample": ("zero_mean", False),
    "zero-mean, K samples": ("zero_mean", True),
    "permuted sigma, one sample": ("permuted", False),
    "permuted sigma, K samples": ("permuted", True),
}


LAYERS = list_of(TEXT, "all, or a list of layers, e.g. [dense1]")
CHECKS = {
    "threads": THREADS,
    "out": or_null(FOLDER),
    "data_dir": or_null(FOLDER),
    "seed": SEED,
    **CODE,
    "eval.samples": or_null(COUNT),
    "eval.elbo_samples": or_null(whole(0, 10**6)),
    "eval.max_batch": or_null(whole(1)),
    "eval.layers": Check(lambda v: TEXT.fits(v) or LAYERS.fits(v), LAYERS.wanted),
    "eval.batch_statistics": one_of(True, False),
    "eval.draws": whole(0, 10**6),
    "eval.fractions": list_of(number(0, 1), "a list of numbers from 0 to 1"),
    "eval.prune_by": or_null(one_of(*CRITERIA)),
    "eval.angles": list_of(number(), "a list of angles in degrees"),
    "eval.ood": or_null(one_of(*NAMES)),
}


def settings(defaults: DictConfig, overrides: list[str]) -> DictConfig:
    """The defaults of configs/evaluate.yaml with key=value from the command line."""
    return overridden(defaults, overrides, CHECKS)


OPTIONS = {"by": "eval.prune_by", "layers": "eval.layers"}  # of prune, as they are called here


class Analysis:
    """Measures one run; `results` and `figures` fill up."""

    def __init__(self, run: Finished, options: DictConfig, device: torch.device):
        self.run, self.options, self.device = run, options, device
        own = run.cfg.eval
        self.samples = options.eval.samples or own.samples
        self.elbo_samples = own.elbo_samples if options.eval.elbo_samples is None else options.eval.elbo_samples
        self.max_batch = options.eval.max_batch or own.max_batch
        self.size, self.fold = evaluation.batch_size(device, self.max_batch)
        self.channels_last = use_channels_last(run.cfg, device)
        self.model = placed(run.model, run.cfg, device)
        self.title = in_picture(f"{run.cfg.name}, seed {run.cfg.seed}")
        self.results: dict = {
            "run": {"name": str(run.cfg.name), "seed": run.cfg.seed, "commit": run.metrics.get("commit")},
            "samples": self.samples, "modes": {},
        }  # fmt: skip
        if run.members:
            self.results["run"]["members"] = list(run.members)
        self.figures: dict = {}
        chosen = options.eval.layers
        self.layers = chosen if isinstance(chosen, str) else list(chosen)
        try:
            select(self.layers, list(layers_of(self.model)))
        except ConfigError as error:
            raise error.under("eval") from error

    def batches(self, split: str = "test", **options: Any) -> Loader:
        """Batches of the run's own data, as the options of the command want them."""
        return self._loader(getattr(self.run.data, f"{split}_x"), getattr(self.run.data, f"{split}_y"), **options)

    def _loader(self, x: torch.Tensor, y: torch.Tensor, **options: Any) -> Loader:
        data = self.run.data
        return Loader(
            x, y, min(self.size, len(y)), device=self.device, mean=data.mean, std=data.std,
            channels_last=self.channels_last, rank=0, world_size=1, **options,
        )  # fmt: skip

    def all(self) -> "Analysis":
        """Measure everything that the options ask for and the model has."""
        chosen = self.options.eval
        self.modes()
        variational = bool(layers_of(self.model))
        if self.elbo_samples and not isinstance(self.model, Ensemble):  # members have an ELBO each
            self.results["elbo"] = self._elbo()
            if chosen.batch_statistics:
                with evaluation.batch_statistics(self.model):
                    self.results["elbo, batch norm by batch"] = self._elbo()
        if chosen.draws and evaluation.is_stochastic(self.model):
            self.weight_samples()
        if len(chosen.fractions) and variational:
            self.pruning()
        if len(chosen.angles) and len(self.run.data.in_shape) == 3:
            self.rotation()
        if chosen.ood:
            self.outliers()
        return self

    def _elbo(self) -> dict:
        batches = self.batches("train")
        found = evaluation.elbo(self.model, batches, self.elbo_samples, self.options.seed, self.run.likelihood)
        return found | {"elbo_samples": self.elbo_samples}

    def modes(self) -> None:
        """Every mode; those that change nothing in this model are left out."""
        known = {mode: self._predict(mode) for mode in self._modes_that_differ()}
        shown = _by_name(known)
        self.results["modes"] = {name: metrics.summary(found) for name, found in shown.items()}
        if self.options.eval.batch_statistics:
            with evaluation.batch_statistics(self.model):  # not folded: a batch with others in it is another
                by_batch = _by_name({mode: self._predict(mode, fold=False) for mode in known})
            for name, found in by_batch.items():
                self.results["modes"][f"{name}, batch norm by batch"] = metrics.summary(found)
        self.sampled = known.get("sample", known["deterministic"])
        diagrams = {
            name.replace("K", str(self.samples)): metrics.reliability(found.log_probs, found.y)
            for name, found in shown.items()
            if MODES[name][0] in ("deterministic", "sample")
        }
        self.results["reliability"] = diagrams
        self.figures["reliability"] = plots.reliability(diagrams, self.title)

    def _modes_that_differ(self) -> list[str]:
        found = list(layers_of(self.model).values())
        modes = ["deterministic"]
        if evaluation.is_stochastic(self.model):
            modes.append("sample")
        if not all(layer.param.zero_mean for layer in found):
            modes.append("zero_mean")
        return [*modes, "permuted"] if found else modes

    def _predict(self, mode: str, batches=None, fold: bool = True) -> Predictions:
        samples = 1 if mode == "deterministic" else self.samples
        layers = self.layers if mode in ("zero_mean", "permuted") else "all"
        batches = self.batches() if batches is None else batches
        fold = self.fold if fold else None
        found = predict(self.model, batches, mode, samples, layers, self.options.seed, fold)
        check_numbers(found.log_probs)
        return found

    def weight_samples(self) -> None:
        """Accuracy of single draws of the weights (Figure 4)."""
        found = evaluation.weight_samples(self.model, self.batches(), self.options.eval.draws, self.options.seed)
        values = found.accuracy.numpy()
        average = metrics.accuracy(found.average.log_probs, found.average.y)
        self.results["weight_samples"] = {
            "accuracy": values.tolist(), "mean": values.mean(), "std": values.std(ddof=min(1, len(values) - 1)),
            "min": values.min(), "max": values.max(), "accuracy_of_average": average,
        }  # fmt: skip
        figure = plots.histograms({"one draw of the weights": values}, "test accuracy, %", self.title)
        figure.axes[0].axvline(average, color="#c44e52", label=f"average of {len(values)} draws")
        figure.axes[0].legend(frameon=False)
        self.figures["weight_samples"] = figure

    def pruning(self) -> None:
        """Accuracy by the fraction of weights that are removed (Figure 5)."""
        chosen = self.options.eval
        how = (chosen.fractions, self.samples, self.layers, chosen.prune_by, self.options.seed)
        try:
            rows = pruning_curve(self.model, self.batches(), *how)
        except ConfigError as error:  # of a layer that has no such order
            raise error.called(OPTIONS.get(error.key, error.key)) from error
        self.results["pruning"] = rows
        lines = {f"{self.samples} samples": [r["acc_k"] for r in rows], "deterministic": [r["acc_det"] for r in rows]}
        fractions = [100 * r["fraction"] for r in rows]
        self.figures["pruning"] = plots.curves(fractions, lines, "weights removed, %", "test accuracy, %", self.title)

    def rotation(self) -> None:
        """Accuracy and entropy of turned images."""
        rows = ood.by_angle(
            self.model, self.batches(), self.run.data, self.options.eval.angles, self.samples, self.options.seed
        )
        self.results["rotation"] = rows
        self.figures["rotation"] = plots.by_angle(rows, self.title)

    def outliers(self) -> None:
        """Entropies of another dataset beside those of the run's own."""
        name = self.options.eval.ood
        if name == self.run.data.name:
            raise ConfigError("is the run's own dataset: choose another", "eval.ood", name)
        other = load(name, data_dir=self.run.cfg.data_dir)
        outside = self._predict("sample", self._loader(ood.as_inputs_of(self.run.data, other), other.test_y))
        self.results["ood"] = {"dataset": name, **ood.against(self.sampled, outside)}
        entropies = {
            f"{self.run.data.name} (test)": metrics.entropy(self.sampled.log_probs).numpy(),
            f"{name} (outliers)": metrics.entropy(outside.log_probs).numpy(),
        }
        self.figures["ood"] = plots.histograms(entropies, "predictive entropy, nats", self.title)


def _by_name(known: dict[str, Predictions]) -> dict[str, Predictions]:
    """The predictions of each mode under the names that results have: one sample, and all K."""
    return {name: known[mode] if many else _first(known[mode]) for name, (mode, many) in MODES.items() if mode in known}


def _first(found: Predictions) -> Predictions:
    """The first sample alone."""
    return Predictions(found.y, found.first, found.first, found.first_entropy, found.first_entropy)
