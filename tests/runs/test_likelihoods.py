"""likelihood= in a run: every dataset of numbers through train, evaluate, report and resume; what does not fit."""

import json
import shutil
import sys

import pytest
import torch
from matplotlib.figure import Figure
from omegaconf import OmegaConf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.composing import composed, tiny
from tests.nn.refused import assert_refused
from varnet import mixture
from varnet.base import plots
from varnet.cli import attack, compress, evaluate, report
from varnet.cli.train import attempt, objective, run
from varnet.evaluation import numbers
from varnet.launch.table import print_table
from varnet.report import groups
from varnet.runs.folder import folder_of
from varnet.runs.identity import digest
from varnet.runs.members import open_ensemble
from varnet.runs.opening import open_finished
from varnet.runs.overrides import explain
from varnet.runs.resuming import resumed
from varnet.train import checkpoint

FC = ("model=fc", "model.sizes=[4]", "model.width=1", "schedule.epochs=2", "checkpoint_every=1")
FEW = ["eval.samples=2", "eval.draws=2", "eval.elbo_samples=2", "eval.fractions=[0,0.9]", "threads=1"]


@pytest.fixture(autouse=True)
def unrendered(monkeypatch, unpictured):
    """Figures are made, and are not turned into pixels, which takes longer than the runs."""
    picture = plots.rendered(Figure(figsize=(0.1, 0.1)))
    monkeypatch.setattr(plots, "rendered", lambda figure: picture)


@pytest.fixture
def table(tmp_path):
    """Overrides of a table with columns of every kind: numbers, counts, labels, classes."""
    x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
    rows = [
        f"{a:.3f},{b:.3f},{20 + 5 * a - b:.3f},{int(4 + a)},{int(a > 0)},{int(b > 0)},{'low' if a < b else 'high'}\n"
        for a, b in x.tolist()
    ]
    names = ["a", "b", "y", "count", "left", "up", "kind"]

    def overrides(*kept: str, target: str) -> tuple[str, ...]:
        places = [names.index(name) for name in kept]
        lines = [",".join(row.strip().split(",")[i] for i in places) for row in rows]
        path = tmp_path / f"{'_'.join(kept)}.csv"
        path.write_text("\n".join([",".join(kept), *lines]) + "\n")
        return "dataset=table", f"dataset.file={path}", f"dataset.target={target}", "dataset.test_size=null"

    return overrides


def chosen(name: str, table) -> tuple[str, ...]:
    if name == "table":
        return table("a", "b", "y", target="y")
    more = ("likelihood.variance=predicted",) if name == "toy_regression" else ()
    return (f"dataset={name}", *more)


@pytest.mark.parametrize("name", [pytest.param("diabetes", marks=pytest.mark.slow), "toy_regression", "table"])
def test_a_dataset_of_numbers_goes_through_every_command(name, table, tmp_path, capsys):
    cfg = tiny(tmp_path / "runs", *FC, *chosen(name, table))
    metrics = run(cfg)
    folder = folder_of(cfg)
    found = open_finished(folder)
    det = mixture(found.model, found.data.loader("test"), found.likelihood, "deterministic")
    assert metrics["rmse_det"] == pytest.approx(float((det.mean - found.data.test_y).square().mean().sqrt()), rel=1e-5)
    assert metrics["nll_det"] == pytest.approx(numbers.nll(det), rel=1e-5) and "acc_k" not in metrics
    assert metrics["rmse_det"] < 3 * float(found.data.test_y.std())  # in the units of the targets
    assert objective(metrics) == -metrics["nll_k"]
    tags = EventAccumulator(str(folder)).Reload().Tags()["scalars"]
    assert {"test/rmse_k", "test/nll_k", "test/coverage_k", "test/calibration_k", "train/train_rmse"} <= set(tags)
    print_table(metrics)
    assert "rmse above" in capsys.readouterr().out

    assert evaluate.main([str(folder), *FEW]) == 0
    results = json.loads((folder / "evaluation.json").read_text())
    assert results["modes"]["deterministic"]["rmse"] == pytest.approx(metrics["rmse_det"], rel=1e-5)
    assert results["elbo"]["data_term"] == pytest.approx(metrics["data_term"], rel=1e-5)
    assert results["elbo"]["kl"] == pytest.approx(metrics["kl"]) and len(results["weight_samples"]["rmse"]) == 2
    assert [set(row) for row in results["pruning"]] == [{"fraction", "rmse_k", "rmse_det"}] * 2
    assert (folder / "curve.png").exists() == (name == "toy_regression") and (folder / "coverage.png").exists()
    said = capsys.readouterr().out
    assert "RMSE" in said and "rmse after removing weights" in said and "draws of the weights: rmse" in said

    again = tmp_path / "again" / folder.name
    shutil.copytree(folder, again)
    (again / checkpoint.PREVIOUS).replace(again / checkpoint.NAME)
    (again / "metrics.json").unlink()
    attempt(resumed(again, []), again)
    whole, resumed_ = (checkpoint.read(place / checkpoint.NAME)["model"] for place in (folder, again))
    assert all(torch.equal(value, resumed_[key]) for key, value in whole.items())

    assert report.main([str(tmp_path / "runs"), "--out", str(tmp_path / "report")]) in (None, 0)
    header = (tmp_path / "report" / "table.md").read_text().splitlines()[0]
    assert "rmse_k" in header and "coverage_k" in header and "acc_k" not in header


@pytest.mark.parametrize(
    ("columns", "target", "overrides", "measure"),
    [
        (("a", "b", "count"), "count", ("likelihood=poisson",), "rmse_k"),
        (("a", "b", "left", "up"), "[left,up]", ("likelihood=bernoulli",), "acc_k"),
        (("a", "b", "kind"), "kind", ("likelihood=categorical",), "acc_k"),
        pytest.param(
            ("a", "b", "y", "count"),
            "[y,count]",
            ("likelihood.variance=0.5", "likelihood.standardise=false"),
            "rmse_k",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("a", "b", "y"),
            "y",
            ("likelihood.variance=predicted", "param=deterministic"),
            "rmse_k",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_likelihood_trains_on_columns_of_its_kind(columns, target, overrides, measure, table, tmp_path):
    cfg = tiny(tmp_path, *FC, *table(*columns, target=target), *overrides)
    metrics = run(cfg)
    assert metrics[measure] >= 0 and metrics["train_" + measure.replace("_k", "_det")] >= 0
    assert metrics["data_term"] < 0 and metrics["kl"] >= 0
    if "likelihood=categorical" in overrides:  # as ever
        return
    assert evaluate.main([str(folder_of(cfg)), "eval.samples=2", "eval.draws=2", "eval.fractions=[]", "threads=1"]) == 0


def test_the_learned_variance_is_learned_and_kept(table, tmp_path):
    cfg = tiny(tmp_path, *FC, *table("a", "b", "y", target="y"), "schedule.lr=0.1")
    run(cfg)
    found = open_finished(folder_of(cfg))
    (log_variance,) = found.model.noise.log_variance.detach()
    assert 0.01 < abs(float(log_variance)) < 0.5  # four steps of Adam from 0
    assert found.likelihood.variance_of(torch.zeros(1, 2))[0, 0] == pytest.approx(
        float(found.data.train_y.var(correction=0))
    )


def test_an_ensemble_is_the_mixture_of_all(table, tmp_path):
    chosen = table("a", "b", "y", target="y")
    runs = [tiny(tmp_path, *FC, *chosen, f"seed={seed}") for seed in (0, 1)]
    for cfg in runs:
        run(cfg)
    places = [folder_of(cfg) for cfg in runs]
    together, alone = open_ensemble(places), [open_finished(place) for place in places]
    batches = together.data.loader("test")
    found = mixture(together.model, batches, together.likelihood, "deterministic")
    each = [mixture(one.model, batches, one.likelihood, "deterministic") for one in alone]
    torch.testing.assert_close(found.mean, (each[0].mean + each[1].mean) / 2)
    wanted = torch.stack([one.log_prob() for one in each]).logsumexp(0) - torch.tensor(2.0).double().log()
    torch.testing.assert_close(found.log_prob(), wanted)
    (group,) = groups.group(groups.read([tmp_path]))
    assert len(group.values("rmse_k")) == 2


def test_a_function_of_the_users(tmp_path, monkeypatch, capsys):
    """By its import path, which a folder alone may not name."""
    name = "varnet_test_my_likelihood"
    (tmp_path / f"{name}.py").write_text("def log_p(out, y):\n    return -(out - y).abs().sum(1) / 50\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    cfg = tiny(tmp_path, *FC, "dataset=diabetes", "likelihood=custom", f"likelihood.target={name}:log_p")
    metrics = run(cfg)
    assert metrics["nll_k"] > 0 and "rmse_k" not in metrics
    assert evaluate.main([str(folder_of(cfg)), *FEW]) == 2
    assert f"takes code from likelihood.target={name}:log_p" in capsys.readouterr().err
    assert evaluate.main([str(folder_of(cfg)), *FEW, f"likelihood.target={name}:log_p"]) == 0
    sys.modules.pop(name)


def test_what_is_about_classes_alone_says_so(table, tmp_path, capsys):
    cfg = tiny(tmp_path, *FC, *table("a", "b", "y", target="y"))
    run(cfg)
    place = str(folder_of(cfg))
    for main, words in ((attack.main, "is not for attacks"), (compress.main, "is not for compress")):
        assert main([place]) == 2
        assert words in capsys.readouterr().err
    assert evaluate.main([place, *FEW, "eval.ood=digits"]) == 2
    assert "eval.ood=digits is for classes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        (
            ["dataset=diabetes", "likelihood=categorical"],
            "dataset",
            ["1 numbers for a target", "use likelihood=gaussian"],
        ),
        (["dataset=digits", "likelihood=gaussian"], "dataset", ["does not fit likelihood=gaussian", "categorical"]),
        (["dataset=digits", "likelihood=bernoulli"], "dataset", ["not in [0, 1]"]),
        (["dataset=toy_regression", "likelihood=poisson"], "dataset", ["no counts: use 0, 1, 2"]),
        (
            ["dataset=diabetes", "likelihood.variance=-1"],
            "likelihood.variance",
            ["use learned, predicted, or a finite"],
        ),
        (["dataset=diabetes", "likelihood.standardise=2"], "likelihood.standardise", ["use one of true, false"]),
        (["dataset=diabetes", "likelihood.name=normal"], "likelihood.name", ["use one of bernoulli, categorical"]),
        (["dataset=diabetes", "+likelihood.foo=1"], "likelihood.foo", ["choose from name, target, variance"]),
        (["dataset=table"], "dataset.file", ["use the name of a CSV file"]),
        (["dataset=table", "dataset.file=nowhere.csv", "dataset.target=y"], "dataset.file", ["is not there"]),
        (["dataset=diabetes", "dataset.file=x.csv"], "dataset.file", ["is only for dataset=table"]),
        (["dataset=diabetes", "likelihood=custom"], "likelihood.target", ["use package.module:function"]),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(overrides, key, words, tmp_path):
    forced = [word if not word.startswith("dataset.file") else f"+{word}" for word in overrides]
    cfg = composed("model=fc", "schedule.batch_size=20", f"out_dir={tmp_path}", *forced)
    assert_refused(lambda: run(cfg), key, *words)
    assert list(tmp_path.iterdir()) == []


def test_the_identity_of_what_there_was_stays():
    plain = composed("dataset=digits")
    assert "likelihood" not in plain
    assert digest(composed("dataset=digits", "likelihood=categorical")) == digest(plain)
    first, second = (composed("dataset=diabetes", "model=fc", f"likelihood.variance={v}") for v in ("learned", 0.5))
    assert first.likelihood.name == "gaussian" and digest(first) != digest(second)
    other = composed("dataset=diabetes", "model=fc", "likelihood=poisson")
    assert OmegaConf.to_container(other.likelihood) == {"name": "poisson"}, "the command line wins"


def test_a_key_of_a_likelihood_that_was_not_chosen():
    error = ValueError("Could not override 'likelihood.variance'.")
    assert "give that, too, e.g. likelihood=gaussian" in explain(error, ["likelihood.variance=1"])
