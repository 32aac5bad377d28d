"""Every config composes and builds; wrong input is one sentence before anything is written."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.composing import ROOT, composed, tiny
from varnet.cli import train
from varnet.cli.train import run
from varnet.errors import ConfigError
from varnet.launch.command import flags_first
from varnet.runs import schema as config
from varnet.runs.build import build_model, load_data
from varnet.runs.folder import folder_of
from varnet.runs.identity import differences, digest, identity
from varnet.runs.overrides import explain

CONFIGS = ROOT / "configs"
NAMES = {group: sorted(p.stem for p in (CONFIGS / group).glob("*.yaml")) for group in ("model", "param", "prior")}
PAIRING = {"lenet5": "mnist", "lenet300": "mnist", "fc": "mnist", "vgg": "cifar10", "toy": "toy"}


@pytest.mark.parametrize("group", ["dataset", "model", "param", "prior", "schedule", "experiment"])
def test_every_file_composes_and_passes_the_check(group):
    for path in (CONFIGS / group).glob("*.yaml"):
        config.check(composed(f"{group}={path.stem}"))


@pytest.mark.parametrize("model", NAMES["model"])
def test_a_model_brings_its_papers_dataset(model):
    assert composed(f"model={model}").dataset.name == PAIRING[model]
    assert composed(f"model={model}", "dataset=digits").dataset.name == "digits"
    assert composed("dataset=digits", f"model={model}").dataset.name == "digits"


@pytest.mark.usefixtures("unpictured")
@pytest.mark.parametrize("model, param, prior", list(itertools.product(*NAMES.values())))
def test_every_combination_takes_two_steps(model, param, prior, tmp_path):
    metrics = run(tiny(tmp_path, f"model={model}", f"param={param}", f"prior={prior}"))
    assert math.isfinite(metrics["elbo"]) and 0 <= metrics["acc_k"] <= 100


EXPERIMENTS = sorted(str(p.relative_to(CONFIGS / "experiment"))[:-5] for p in (CONFIGS / "experiment").rglob("*.yaml"))


@pytest.mark.usefixtures("unpictured")
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_takes_two_steps(experiment, tmp_path):
    labels = ["dataset.labels=null"] if "cifar100" in experiment else []  # digits have no coarse ones
    metrics = run(tiny(tmp_path, f"experiment={experiment}", *labels))
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


BAD = {
    "param=layr": "param=layr is not known: choose one of additive, .*did you mean param=layer",
    "model=lenet6": "model=lenet6 is not known",
    "model.width=-1": "model.width=-1 does not do: use a number above 0",
    "model.widht=1": "there is no key model.widht",
    "eval.samples=0": "eval.samples=0 does not do: use a whole number from 1",
    "schedule.epochs=-3": "schedule.epochs=-3 does not do: use a whole number from 1",
    "seed=abc": "seed=abc does not do: use a whole number from 0",
    "schedule.batch_size=100000": "schedule.batch_size=100000 is larger than the 1297 training objects",
    "param.layers=[conv9]": "param.layers: there is no layer 'conv9'; choose from: conv1, conv2, dense1, dense2",
    "model.activation=gelu": "model.activation='gelu' is not known",
    "param.noise=bernoulli": "param.noise=bernoulli needs weights of mean zero",
    "prior.estimator=best": "prior.estimator='best' is not known",
    "device=tpu": "device='tpu' is not known",
    "precision=fp8": "precision=fp8 does not do: use one of fp32, bf16, fp16",
    "schedule.lr=0": "schedule.lr=0 does not do",
    "schedule.beta_from=9": "schedule.beta_until=0 comes before schedule.beta_from=9",
    "schedule.log_alpha.beta2=1": "schedule.log_alpha.beta2=1 does not do",
    "dataset.labels=coarse": "labels=coarse is not known for dataset=digits",
    "dataset.train_size=0": "train_size=0 does not fit",
    "init_from=/nowhere": "init_from=/nowhere has no weights",
    "dataset.augment=flase": "dataset.augment=flase does not do: use one of true, false",
    "dataset.seed=abc": "dataset.seed=abc of dataset=digits does not do",
    "schedule.batch_size=1": "schedule.batch_size=1 is too small for batch norm",
    "seed=18446744073709551615": "seed=18446744073709551615 does not do",
    "model.name=foo": "model.name=foo is not known",
    "schedule=null": "schedule=null does not do: a group takes one of its choices",
    "+foo=1": "foo=1: there is no key foo",
    "+dataset.foo=1": "dataset.foo=1: there is no key dataset.foo; choose from: name, labels",
    "+model.foo=1": "model.foo=1: there is no key model.foo; choose from: name, width",
    "+param.foo=1": "param.foo=1: there is no key param.foo; choose from: name, layers",
    "+prior.foo=1": "prior.foo=1: there is no key prior.foo; choose from: name, estimator",
    "+schedule.foo=1": "schedule.foo=1: there is no key schedule.foo; choose from: epochs",
    "+schedule.log_alpha.foo=1": "there is no key schedule.log_alpha.foo; choose from: lr_mult, beta2",
    "+eval.foo=1": "eval.foo=1: there is no key eval.foo; choose from: every",
    "schedule.log_alpha=3": "schedule.log_alpha=3 does not do",
    "param.layers=none": "param.layers=none leaves no layer random: use param=deterministic",
    "name=../x": "name=../x does not do: use a name of a folder inside out_dir",
    "device=cpu:99": "device='cpu:99' is not on this machine",
    "threads=100000": "threads=100000 does not do",
    "compile=maybe": "compile=maybe does not do: use one of true, false",
}


@pytest.mark.parametrize("override", BAD)
def test_wrong_values_are_refused_before_anything_is_written(override, tmp_path):
    with pytest.raises(Exception, match=BAD[override]) as caught:
        try:
            cfg = composed("dataset=digits", f"out_dir={tmp_path}", override)
        except Exception as error:
            raise ConfigError(explain(error, [override])) from error
        run(cfg)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(ROOT / "train.py"), *arguments], capture_output=True, text=True, cwd=ROOT, timeout=120
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
        train.guarded(composed("dataset=digits", "schedule.epochs=1", "threads=1", f"out_dir={out_dir}"))
    said = capsys.readouterr().err
    assert caught.value.code == 2 and said.startswith(f"error: out_dir={out_dir} cannot be used")
    assert said.count("\n") == 1


def test_help_explains_groups_and_keys():
    done = command("--help")
    assert done.returncode == 0
    for word in ("param: additive, deterministic", "prior: ard", "checkpoint_every", "resume=", "tensorboard"):
        assert word in done.stdout


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
