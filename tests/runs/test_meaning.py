"""An option that says nothing about what was chosen is refused in a new run, and let be in an old one."""

import pytest
from omegaconf import OmegaConf

from tests.composing import composed
from tests.nn.refused import assert_refused
from varnet.runs.meaning import check_new, owners
from varnet.runs.overrides import put
from varnet.runs.schema import check

IDLE = {  # what is chosen, and what is given -> the remedy
    ("prior=loguniform", "prior.nu=2"): "leave it out, or use prior=student",
    ("prior=student", "prior.estimator=exact"): "leave it out, or use prior=loguniform",
    ("param=layer", "param.learn=log_sigma"): "leave it out, or use param=zero_mean",
    ("param=layer", "param.log_sigma=-4"): "leave it out, or use param=additive or param=zero_mean",
    ("param=zero_mean", "param.log_alpha=-8"): "leave it out, or use param=additive or ",
    ("param=zero_mean", "param.clip=[-8,8]"): "leave it out, or use param=additive or ",
    ("param=deterministic", "param.log_alpha=-8"): "leave it out, or use param=additive or ",
    ("param=dropout", "param.clip=[-8,8]"): "leave it out, or use param=additive or ",
    ("param=dropout", "model.dropout=false"): "use param=deterministic",
    ("param=zero_mean", "prior.estimator=exact"): "leave it out",
    ("param=deterministic", "prior.estimator=mc"): "leave it out",
    ("model=fc", "model.affine=false"): "use model.batch_norm=true, or leave it out",
    ("model=fc", "schedule.momentum=0.5"): "use that, or leave it out",
}
MEANT = [  # beside what they could be taken for
    ("param=layer", "param.learn=sigma"), ("param=zero_mean", "param.log_alpha=null"), ("prior=student", "prior.nu=2"),
    ("param=additive", "param.log_sigma=-4"), ("param=zero_mean", "param.learn=log_sigma"),
    ("param=zero_mean", "param.clip=[-20,20]"), ("model=lenet5", "model.affine=false"),
    ("param=dropout", "model.dropout=0.5"), ("param=layer", "model.dropout=false"),
]  # fmt: skip


def given(choice: str, option: str):
    cfg = composed(choice).copy()
    OmegaConf.set_struct(cfg, False)
    put(cfg, option)
    return cfg


@pytest.mark.parametrize("choice, option", IDLE)
def test_an_option_without_a_meaning_is_refused_where_a_run_is_asked_for(choice, option):
    cfg = given(choice, option)
    assert_refused(lambda: check_new(cfg), option.partition("=")[0], IDLE[choice, option])
    check(cfg)  # as it is done for a stored one


@pytest.mark.parametrize("choice, option", MEANT)
def test_an_option_with_a_meaning_is_taken(choice, option):
    check_new(given(choice, option))


def test_whose_an_option_is():
    assert owners("prior.nu") == ["prior=student"] and owners("model.sizes") == ["model=fc"]
    assert owners("model.target") == ["model=custom"] and owners("dataset.size") == ["dataset=digits"]
    assert owners("model.nope") == owners("eval.samples") == []
