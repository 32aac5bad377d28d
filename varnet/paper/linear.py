"""The slides' experiments: how well linear models predict, and which features they find irrelevant.

The slides say "synthetic data", 100,000 objects with 100 features, and 1,000 objects with 10 relevant and 990
irrelevant features. Assumed here: features N(0, 1); relevant weights of size U(0.5, 1.5), either sign; ten relevant
features in both sizes; targets drawn from the slides' own models,

    regression      t = w'x + noise of variance 0.1: the published errors, 0.119 and 0.128, are a little above that
    classification  p(t = 1) = sigmoid(2 w'x): with w itself not even the true weights would reach 0.9, published 0.916
    sign            t = sign(w'x + noise of variance 0.1): an easier problem beside it, with no published number

The whole takes minutes.
"""

import time
from typing import TYPE_CHECKING

import numpy as np

from varnet.base.invocation import command
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, Part, figure
from varnet.report.row import Row
from varnet.runs.provenance import commit

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from sklearn.base import BaseEstimator

SEEDS = 5
RELEVANT, TEST_OBJECTS, NOISE_VARIANCE = 10, 10_000, 0.1
SIZES = {"1,000 x 1,000": (1_000, 1_000), "100,000 x 100": (100_000, 100)}
EXPERIMENTS = [
    ("regression", "1,000 x 1,000"),
    ("classification", "1,000 x 1,000"),
    ("sign", "1,000 x 1,000"),
    ("regression", "100,000 x 100"),
    ("classification", "100,000 x 100"),
]
PUBLISHED = {  # slides, "Experiments: more features"; of the larger data the slides have bar charts only
    ("regression", "1,000 x 1,000", "VD-RVR"): {"test_mse": 0.119, "irrelevant_found": 816},
    ("regression", "1,000 x 1,000", "G-KL RVR"): {"test_mse": 0.128, "irrelevant_found": 990},
    ("classification", "1,000 x 1,000", "VD-RVC"): {"test_accuracy": 0.916, "irrelevant_found": 984},
    ("classification", "1,000 x 1,000", "G-KL RVC"): {"test_accuracy": 0.907, "irrelevant_found": 983},
}


@figure(
    "linear", "Linear models: log alpha of relevant and irrelevant features",
    parts=[Part(f"{task}, {size}", SEEDS) for task, size in EXPERIMENTS],
)  # fmt: skip
def draw(library: Library) -> Drawn | None:
    return Drawn(relevance(), {}, results(max(library.seeds, SEEDS))) if library.may_run else None


def generate(task: str, objects: int, features: int, seed: int) -> tuple[np.ndarray, ...]:
    """X and t to train on, X and t to test on, and the weights; the first ten features are the relevant ones."""
    from scipy.special import expit

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((objects + TEST_OBJECTS, features))
    w = np.zeros(features)
    w[:RELEVANT] = rng.choice([-1, 1], RELEVANT) * rng.uniform(0.5, 1.5, RELEVANT)
    mean = X @ w
    noisy = mean + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(len(X))
    if task == "classification":
        t = (rng.random(len(X)) < expit(2 * mean)).astype(int)
    else:
        t = noisy if task == "regression" else (noisy > 0).astype(int)
    return X[:objects], t[:objects], X[objects:], t[objects:], w


def methods(task: str) -> "dict[str, BaseEstimator]":
    """The rows of a table. `log alpha < 3` is the threshold of sparse variational dropout in place of our own."""
    from sklearn.linear_model import ARDRegression, LassoCV  # scikit-learn takes long to import

    from varnet.linear import GKLClassifier, GKLRegressor, VDClassifier, VDRegressor

    if task == "regression":
        return {
            "VD-RVR": VDRegressor(),
            "G-KL RVR": GKLRegressor(),
            "VD-RVR, log alpha < 3": VDRegressor(threshold=3.0),
            "G-KL RVR, log alpha < 3": GKLRegressor(threshold=3.0),
            "ARDRegression": ARDRegression(),
            "LassoCV": LassoCV(),
        }
    return {
        "VD-RVC": VDClassifier(),
        "G-KL RVC": GKLClassifier(),
        "VD-RVC, log alpha < 3": VDClassifier(threshold=3.0),
        "G-KL RVC, log alpha < 3": GKLClassifier(threshold=3.0),
        "L1 logistic regression": l1_logistic(),
    }


def l1_logistic() -> "BaseEstimator":
    """The lasso of classification, C by cross-validation. scikit-learn 1.8 renamed the argument."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    old = getattr(LogisticRegression(), "penalty", None) == "l2"
    model = LogisticRegression(solver="liblinear", random_state=0, **({"penalty": "l1"} if old else {"l1_ratio": 1.0}))
    return GridSearchCV(model, {"C": np.logspace(-2, 1, 7)}, cv=3, scoring="neg_log_loss")


def measure(
    model: "BaseEstimator", X: np.ndarray, t: np.ndarray, X_test: np.ndarray, t_test: np.ndarray
) -> dict[str, float]:
    """Fit and test one estimator. A feature is found irrelevant if its weight is 0; time is that of the processor,
    which a busy machine does not change much."""
    start = time.process_time()
    model.fit(X, t)
    seconds = time.process_time() - start
    zero = np.ravel(getattr(model, "best_estimator_", model).coef_) == 0
    return {
        **error(t_test, model.predict(X_test)),
        "irrelevant_found": int(zero[RELEVANT:].sum()),
        "relevant_kept": int((~zero[:RELEVANT]).sum()),
        "cpu_seconds": seconds,
    }


def error(t: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    if t.dtype.kind == "i":
        return {"test_accuracy": float((t == prediction).mean())}
    return {"test_mse": float(np.square(t - prediction).mean())}


def measure_all(task: str, size: str, seeds: int) -> dict[str, list[dict[str, float]]]:
    """Method -> its metrics for every seed; "true weights" is the bound."""
    found: dict = {}
    for seed in range(seeds):
        X, t, X_test, t_test, w = generate(task, *SIZES[size], seed)
        best = X_test @ w if task == "regression" else (X_test @ w > 0).astype(int)
        found.setdefault("true weights", []).append(error(t_test, best))
        for name, model in methods(task).items():
            found.setdefault(name, []).append(measure(model, X, t, X_test, t_test))
    return found


def results(seeds: int = SEEDS) -> list[Row]:
    """The mean and standard deviation over seeds of each metric of each method."""
    source = {"scale": "full", "command": f"{command('reproduce')} linear seeds={seeds}", "commit": commit()}
    rows = []
    for task, size in EXPERIMENTS:
        for name, runs in measure_all(task, size, seeds).items():
            published = PUBLISHED.get((task, size, name), {})
            for metric in runs[0]:
                values = [run[metric] for run in runs]
                rows.append(Row.of(f"{task}, {size}: {name}", metric, values, published.get(metric), **source))
    return rows


def relevance(seed: int = 0, size: str = "1,000 x 1,000") -> "Figure":
    """Log alpha of every feature by estimator, the relevant ones marked."""
    from matplotlib.figure import Figure

    panels = Figure(figsize=(9, 6), dpi=120, layout="constrained")
    axes = panels.subplots(2, 2, sharex=True, sharey=True)
    for row, task in zip(axes, ("regression", "classification"), strict=True):
        X, t, *_ = generate(task, *SIZES[size], seed)
        for axis, (name, model) in zip(row, list(methods(task).items())[:2], strict=True):
            _draw(axis, name, model.fit(X, t))
    for axis in axes[:, 0]:
        axis.set_ylabel("log alpha")
    for axis in axes[-1]:
        axis.set_xlabel("feature")
    axes[0, 0].legend(loc="lower right", frameon=False, fontsize=8)
    return panels


def _draw(axis, name: str, model) -> None:
    log_alpha = np.ravel(model.log_alpha_)
    feature = np.arange(1, len(log_alpha) + 1)
    axis.scatter(feature[RELEVANT:], log_alpha[RELEVANT:], s=5, color="#8c8c8c", label="irrelevant feature")
    axis.scatter(feature[:RELEVANT], log_alpha[:RELEVANT], s=28, color="#c44e52", marker="D", label="relevant feature")
    axis.axhline(model.threshold_, color="black", lw=0.9, ls=":", label="threshold")
    found, kept = (~model.relevant_[RELEVANT:]).sum(), model.relevant_[:RELEVANT].sum()
    axis.set_title(f"{name}: {found} of {len(feature) - RELEVANT} irrelevant, {kept} of {RELEVANT} kept", fontsize=9)
    axis.grid(alpha=0.25)
