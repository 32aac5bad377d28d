"""Every config composes and builds; wrong input is one sentence before anything is written."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf

from tests.composing import ROOT, composed, tiny
from tests.nn.refused import assert_refused
from tests.processes import HANG
from varnet.cli import train
from varnet.cli.train import run
from varnet.launch.command import flags_first
from varnet.launch.ending import stopped_in_a_sentence
from varnet.runs import composing
from varnet.runs.build import build_model, load_data
from varnet.runs.folder import folder_of
from varnet.runs.identity import differences, digest, identity
from varnet.runs.meaning import check_new
from varnet.runs.overrides import explain

CONFIGS = ROOT / "configs"
NAMES = {  # custom is the user's own: test_custom.py
    group: sorted(p.stem for p in (CONFIGS / group).glob("*.yaml") if p.stem != "custom")
    for group in ("model", "param", "prior")
}
PAIRING = {"lenet5": "mnist", "lenet300": "mnist", "fc": "mnist", "vgg": "cifar10", "toy": "toy"}


@pytest.mark.parametrize("group", ["likelihood", "dataset", "model", "param", "prior", "schedule", "experiment"])
def test_every_file_composes_and_passes_the_check(group):
    for path in (CONFIGS / group).glob("*.yaml"):
        own = [f"{group}.target=package.module:function"] if path.stem == "custom" else []
        check_new(composed(f"{group}={path.stem}", *own))


@pytest.mark.parametrize("model", NAMES["model"])
def test_a_model_brings_its_papers_dataset(model):
    assert composed(f"model={model}").dataset.name == PAIRING[model]
    assert composed(f"model={model}", "dataset=digits").dataset.name == "digits"
    assert composed("dataset=digits", f"model={model}").dataset.name == "digits"


def pairwise() -> set[tuple[str, str, str]]:
    """Every model with every param, every model with every prior and every param with every prior."""
    models, params, priors = NAMES.values()
    numbered = itertools.product(enumerate(models), enumerate(params))
    return {(model, param, priors[(i + j) % len(priors)]) for (i, model), (j, param) in numbered}


COMBINATIONS = [
    pytest.param(*choice, marks=[] if choice in pairwise() else pytest.mark.slow)
    for choice in itertools.product(*NAMES.values())
]


def test_all_pairs_of_choices_are_among_the_combinations():
    for kinds in itertools.combinations(range(3), 2):
        every = set(itertools.product(*(list(NAMES.values())[kind] for kind in kinds)))
        assert {tuple(choice[kind] for kind in kinds) for choice in pairwise()} == every


@pytest.mark.usefixtures("unpictured")
@pytest.mark.parametrize("model, param, prior", COMBINATIONS)
def test_every_combination_takes_two_steps(model, param, prior, tmp_path):
    metrics = run(tiny(tmp_path, f"model={model}", f"param={param}", f"prior={prior}"))
    assert math.isfinite(metrics["elbo"]) and 0 <= metrics["acc_k"] <= 100


def experiments() -> list:
    """All of them. Of the scales of one experiment, shrunken to the same two steps, make test has the small one, and of
    those by the fast schedule at a larger width one."""
    names = sorted(str(p.relative_to(CONFIGS / "experiment"))[:-5] for p in (CONFIGS / "experiment").rglob("*.yaml"))
    wide = {n for n in names if n.startswith(("fast/", "half/"))} - {"half/table2_cifar10_variance"}
    slow = wide | {n for n in names if f"small/{n}" in names}
    return [pytest.param(n, marks=[pytest.mark.slow] if n in slow else []) for n in names]


@pytest.mark.usefixtures("unpictured")
@pytest.mark.parametrize("experiment", experiments())
def test_every_experiment_takes_two_steps(experiment, tmp_path):
    own = ["dataset.labels=null"] if "cifar100" in experiment else []  # digits have no coarse ones
    own += ["dataset=toy_regression", "model.width=1"] if experiment == "regression" else []  # nor numbers as targets
    metrics = run(tiny(tmp_path, f"experiment={experiment}", "init_experiment=null", *own))
    assert math.isfinite(metrics["elbo"])


def test_published_protocols():
    cfg = composed("model=vgg", "dataset=digits")
    assert (cfg.schedule.epochs, cfg.schedule.batch_size, cfg.schedule.lr, cfg.schedule.decay) == (
        550,
        100,
        1e-3,
        "linear",
    )
    model = build_model(composed("model=vgg", "model.width=0.1", "dataset=digits"), load_data(cfg))
    assert float(model.conv11.log_alpha.detach()) == -10.0
    cfg = composed("dataset=digits")
    assert (cfg.schedule.epochs, cfg.schedule.batch_size, cfg.schedule.lr, cfg.schedule.decay) == (
        200,
        200,
        1e-3,
        "linear",
    )
    assert (cfg.schedule.log_alpha.lr_mult, cfg.schedule.log_alpha.beta2) == (1.0, 0.999)
    assert float(build_model(cfg, load_data(cfg)).dense1.log_alpha.detach()) == -5.0
    sparse = composed("schedule=sparse_vd").schedule
    assert (sparse.batch_size, sparse.beta_from, sparse.beta_until) == (100, 5, 20)


def test_the_dropout_baseline():
    cfg = composed("param=dropout", "dataset=digits")
    names = [name for name, _ in build_model(cfg, load_data(cfg)).named_children()]
    assert names.count("dropout1") == names.count("dropout2") == 1 and cfg.param.l2 > 0


def dropouts(*overrides: str) -> dict[str, float]:
    cfg = composed("dataset=digits", *overrides)
    return {n: m.p for n, m in build_model(cfg, load_data(cfg)).named_children() if n.startswith("dropout")}


def test_how_much_dropout():
    assert dropouts("param=dropout") == {"dropout1": 0.5, "dropout2": 0.5} == dropouts("model.dropout=true")
    assert dropouts("param=dropout", "model.dropout=0.5") == {"dropout1": 0.25, "dropout2": 0.25}
    assert dropouts("param=dropout", "model.dropout=[dense2]") == {"dropout1": 0.5}
    assert dropouts() == {} == dropouts("model.dropout=false")


def test_the_dropout_network_of_the_authors_script():
    cfg = composed("experiment=table2_mnist_dropout_authors", "dataset=digits")
    children = dict(build_model(cfg, load_data(cfg)).named_children())
    assert list(children) == [
        "conv1", "conv1_pool", "conv1_act", "conv2", "conv2_pool", "conv2_act", "dropout1", "flatten", "dense1",
        "dense1_act", "dense2",
    ]  # fmt: skip
    assert all(children[name].bias is not None for name in ("conv1", "conv2", "dense1", "dense2"))
    assert (cfg.schedule.epochs, cfg.schedule.batch_size, cfg.schedule.lr, cfg.param.l2) == (200, 200, 1e-3, 0)


def test_experiments_beside_the_published_ones():
    start = composed("experiment=table1_additive_from_weights")
    assert (start.param.name, start.param.log_sigma, start.param.log_alpha) == ("additive", None, -5.0)
    assert composed("experiment=table1_additive").param.log_sigma == -5.0
    for name, activation in (("table3_det_dropout", "tanh"), ("fig7_mnist_deterministic_dropout", "relu")):
        cfg = composed(f"experiment={name}")
        assert (cfg.param.name, list(cfg.model.dropout), cfg.param.l2) == ("dropout", ["dense1"], 0)
        assert cfg.model.activation == activation and cfg.schedule == composed("experiment=table3_det").schedule
    for name, decay_from in (("sparse_lenet300_authors", 100), ("sparse_lenet5_authors", None)):
        cfg = composed(f"experiment={name}")
        assert (cfg.param.removed, list(cfg.param.clip), cfg.model.init) == ("mean_of_dense", [-8, 8], 0.01)
        assert (cfg.schedule.decay_from, cfg.schedule.epochs, cfg.scale) == (decay_from, 200, None)
    for name in ("dropout", "sparse_vd"):
        cfg = composed(f"experiment=half/random_labels_cifar10_{name}")
        assert (cfg.dataset.labels, cfg.dataset.train_size, cfg.model.width) == ("random", 10_000, 0.5)
        assert (cfg.scale, cfg.schedule.epochs, cfg.param.l2) == ("half", 200, 0)


def test_options_reach_the_layers():
    cfg = composed("dataset=digits", "param=zero_mean", "param.noise=uniform", "param.layers=[conv2,dense1]")
    model = build_model(cfg, load_data(cfg))
    assert model.conv2.param.noise == model.dense1.param.noise == "uniform"
    cfg = composed("dataset=digits", "prior=gaussian", "prior.scale=0.2", "prior.learn_scale=true", "param.clip=null")
    model = build_model(cfg, load_data(cfg))
    assert model.dense1.prior.scale == 0.2 and hasattr(model.dense1, "log_scale") and model.dense1.param.clip is None


def test_a_folder_is_named_by_what_the_run_is():
    base = folder_of(composed("dataset=digits"))
    assert base.parts[:2] == ("outputs", "digits_lenet5_layer_loguniform") and base.name.startswith("seed0-")
    assert folder_of(composed("dataset=digits", "threads=1", "device=cpu", "data_dir=/x", "eval.every=7")) == base
    assert folder_of(composed("dataset=digits", "seed=1")) != base
    assert folder_of(composed("dataset=digits", "schedule.lr=0.002")) != base


WRONG_CHOICES = {  # what Hydra refuses, in one sentence
    "param=layr": "did you mean param=layer?",
    "model=lenet6": "did you mean model=lenet5?",
    "model.widht=1": "no key model.widht; python train.py --help lists the keys; did you mean model.width?",
    "schedule.epoch=3": "did you mean schedule.epochs?",
    "schedule.lag_alpha.beta2=0": "did you mean schedule.log_alpha.beta2?",
    "modle=vgg": "did you mean model?",
    "epochs=3": "did you mean schedule.epochs?",
    "xyz=1": "there is no key xyz; python train.py --help lists the keys",
    "schedule=null": "a group takes one of its choices; python train.py --help lists them",
}
WRONG_VALUES = {  # override -> its key, the remedy
    "model.width=-1": ("model.width", "use a finite number above 0"),
    "eval.samples=0": ("eval.samples", "use a whole number from 1"),
    "schedule.epochs=-3": ("schedule.epochs", "use a whole number from 1"),
    "seed=abc": ("seed", "use a whole number from 0 to 2147483647"),
    "seed=18446744073709551615": ("seed", "use a whole number from 0 to 2147483647"),
    "schedule.batch_size=100000": ("schedule.batch_size", "use a smaller one, or null for all at once"),
    "schedule.batch_size=1": ("schedule.batch_size", "use 2 or more, or model.batch_norm=false"),
    "param.layers=[conv9]": ("param.layers", "choose from: conv1, conv2, dense1, dense2"),
    "param.layers=none": ("param.layers", "use param=deterministic"),
    "param.noise=bernoulli": ("param.noise", "use param=zero_mean, or noise=gaussian"),
    "schedule.decay_from=200": ("schedule.decay_from", "use an earlier epoch, or null"),
    "schedule.decay_from=-1": ("schedule.decay_from", "use a finite number from 0"),
    "model.init=0": ("model.init", "use a finite number above 0"),
    "param.removed=mean": ("param.removed", "use threshold=3, or null"),
    "param.removed=noise": ("param.removed", "use one of mean, mean_of_dense"),
    "model.dropout=0": ("model.dropout", "use true, false, a number above 0 up to 1, or names of the layers"),
    "model.dropout=[conv9]": ("model.dropout", "choose from: dense1, dense2"),
    "model.activation=gelu": ("model.activation", "use one of relu, tanh, leaky_relu"),
    "model.name=foo": ("model.name", "fc, lenet300, lenet5, toy, vgg, custom"),
    "prior.estimator=best": ("prior.estimator", "use one of approx, exact, mc"),
    "device=tpu": ("device", "choose one of auto, cpu, cuda, mps, or cuda:N"),
    "device=cpu:99": ("device", "use device=cpu"),
    "precision=fp8": ("precision", "use one of fp32, bf16, fp16"),
    "schedule.lr=0": ("schedule.lr", "use a finite number above 0"),
    "schedule.beta_from=9": ("schedule.beta_until", "use a later epoch"),
    "schedule.log_alpha.beta2=1": ("schedule.log_alpha.beta2", "use a finite number from 0 below 1"),
    "schedule.log_alpha=3": ("schedule.log_alpha", "python train.py --help lists the choices"),
    "dataset.labels=coarse": ("dataset.labels", "use null or random"),
    "dataset.train_size=0": ("dataset.train_size", "use null or a whole number up to 1297"),
    "dataset.augment=flase": ("dataset.augment", "use one of true, false"),
    "dataset.seed=abc": ("dataset.seed", "use a whole number from 0"),
    "init_experiment=nothing": ("init_experiment", "name a file of configs/experiment"),
    "init_experiment=original_lenet5": (
        "init_experiment",
        "train it first, with python train.py experiment=original_lenet5",
    ),
    "init_from=/nowhere": ("init_from", "name a run's folder or checkpoint"),
    "name=../x": ("name", "use a name of a folder inside out_dir"),
    "threads=100000": ("threads", "use a whole number from 1 to 1024, or null"),
    "compile=maybe": ("compile", "use one of true, false"),
    "+foo=1": ("foo", "python train.py --help lists the keys"),
    "+dataset.foo=1": ("dataset.foo", "choose from name, labels"),
    "+model.foo=1": ("model.foo", "choose from name, width"),
    "+param.foo=1": ("param.foo", "choose from name, layers"),
    "+prior.foo=1": ("prior.foo", "choose from name, scale, learn_scale"),
    "+schedule.foo=1": ("schedule.foo", "choose from epochs"),
    "+schedule.log_alpha.foo=1": ("schedule.log_alpha.foo", "choose from lr_mult, beta2"),
    "+eval.foo=1": ("eval.foo", "choose from every"),
}


@pytest.mark.parametrize("override", WRONG_CHOICES)
def test_a_choice_that_is_not_there_is_one_sentence(override):
    with pytest.raises((HydraException, ValueError)) as caught:
        composing.composed(override)
    said = explain(caught.value, [override])
    assert said.startswith(override) and WRONG_CHOICES[override] in said and "\n" not in said


@pytest.mark.parametrize("override", WRONG_VALUES)
def test_wrong_values_are_refused_before_anything_is_written(override, tmp_path):
    key, remedy = WRONG_VALUES[override]
    cfg = composed("dataset=digits", f"out_dir={tmp_path}", override)
    assert_refused(lambda: run(cfg), key, remedy)
    assert list(tmp_path.iterdir()) == []


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(ROOT / "train.py"), *arguments], capture_output=True, text=True, cwd=ROOT, timeout=HANG
    )


def test_the_command_says_one_sentence():
    done = command("param=layr")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["eval.samples=0"], ["resume=tests"], ["resume="], ["++resume=nowhere"], ["-m", "resume=x"]]
)
def test_a_refusal_is_one_sentence(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        train.command_line(arguments)
    said = capsys.readouterr()
    assert caught.value.code == 2 and said.out == ""
    assert said.err.startswith("error: ") and said.err.count("\n") == 1


@pytest.mark.parametrize("out_dir", ["/dev/null/x", "/dev/null"])
def test_an_out_dir_that_cannot_be_used(out_dir, capsys):
    with pytest.raises(SystemExit) as caught:
        cfg = composed("dataset=digits", "schedule.epochs=1", "threads=1", f"out_dir={out_dir}")
        stopped_in_a_sentence(lambda: train.attempt(cfg))
    said = capsys.readouterr().err
    assert caught.value.code == 2 and said.startswith(f"error: out_dir={out_dir} ") and "use another folder" in said
    assert said.count("\n") == 1


def test_help_explains_groups_and_keys(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py"])
    with pytest.raises(SystemExit) as caught:
        train.command_line(["--help"])
    assert not caught.value.code
    shown = capsys.readouterr().out
    for word in ("param: additive, deterministic", "prior: ard", "checkpoint_every", "resume=", "tensorboard"):
        assert word in shown


def test_differences():
    mine, saved = {"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}, "d": None}
    assert differences(mine, saved) == ["b.c=2 (the run has 3)"]


def test_the_saved_config_is_the_resolved_one(tmp_path):
    cfg = tiny(tmp_path)
    run(cfg)
    saved = OmegaConf.load(folder_of(cfg) / ".hydra" / "config.yaml")
    assert identity(saved) == identity(cfg)
    assert Path(saved.out_dir) == tmp_path


def test_a_new_option_with_the_default_null_does_not_change_a_runs_identity():
    cfg = composed()
    OmegaConf.set_struct(cfg, False)
    more = OmegaConf.merge(cfg, {"param": {"new_option": None}})
    assert digest(more) == digest(cfg)
    assert digest(OmegaConf.merge(cfg, {"param": {"new_option": 1}})) != digest(cfg)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("a=1 -m b=2", "-m a=1 b=2"),
        ("a=1 --cfg job b=2", "--cfg job a=1 b=2"),
        ("a=1 -c job -p model b=2", "-c job -p model a=1 b=2"),
        ("a=1 --info b=2", "--info a=1 b=2"),
        ("a=1 --info defaults", "--info defaults a=1"),
    ],
)
def test_flags_may_stand_anywhere_and_keep_their_values(given, wanted):
    assert flags_first(given.split()) == wanted.split()
