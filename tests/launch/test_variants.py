"""Configurations that are composed once and varied are those that Hydra makes of the same overrides."""

import pickle

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.utils import create_config_search_path
from hydra.core.utils import setup_globals
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import OmegaConf

from tests.composing import ROOT
from varnet.launch import variants
from varnet.launch.variants import VariantLoader, Variants

CONFIGS = str(ROOT / "configs")
JOBS = (
    ["model=lenet300", "model.width=0.1", "param=neuron", "schedule.lr=1e-2", "seed=3"],
    ["model=lenet300", "model.width=0.1", "param=neuron", "schedule.lr=1e-2", "seed=4", "snapshots=[1,2]"],
    ["param.layers=[dense1,'2.10']", "name='a b=c'", "eval={samples: 3}", "+model.affine=true", "data_dir=null"],
    ["seed=5", "~schedule.floor", "schedule.floor=0.1", "++param.l2=0.1", "experiment=demo", "out_dir=\\$x"],
    ["experiment=demo", "param=zero_mean", "prior=none", "schedule.epochs=7"],
)


@pytest.mark.parametrize("own", [[], ["hydra.job.name=x"]])
def test_a_plan_has_the_configurations_that_hydra_composes(own):
    with initialize_config_dir(CONFIGS, version_base="1.3"):
        variant = Variants(own)
        for job in (*JOBS, *JOBS[:2]):  # the last again: nothing that was set has stayed
            assert _outcome(lambda job=job: variant(job)) == _outcome(lambda job=job: compose("train", own + job))
        assert len(variant.known) < len(JOBS)


WRONG = ["modle=lenet5", "param=layr", "model.widht=1", "seed=0,1", "+seed=1", "param@x=layer", "schedule.epochs.x=1"]


@pytest.mark.parametrize("override", WRONG)
def test_it_refuses_what_hydra_refuses_in_its_words(override):
    with initialize_config_dir(CONFIGS, version_base="1.3"):
        theirs = _outcome(lambda: compose("train", [override]))
        assert isinstance(theirs, str) and theirs
        assert _outcome(lambda: Variants([])([override])).splitlines()[0] == theirs.splitlines()[0]


def _outcome(make):
    try:
        return OmegaConf.to_container(make())
    except HydraException as error:
        return str(error)


def test_a_job_has_the_whole_configuration_that_hydra_loads(monkeypatch):
    monkeypatch.setattr(variants, "_composed", {})
    setup_globals()  # as hydra.main does
    loader = VariantLoader(create_config_search_path(CONFIGS))
    master = loader.load_configuration("train", ["hydra.job.name=train", "seed=0,1"], RunMode.MULTIRUN)
    begun = master.hydra.sweep.dir
    loader = pickle.loads(pickle.dumps(loader))
    for job in (JOBS[0], JOBS[1]):
        theirs = super(VariantLoader, loader).load_sweep_config(master, job)
        ours = loader.load_sweep_config(master, job)
        assert OmegaConf.to_container(ours) == OmegaConf.to_container(theirs)
        assert ours.hydra.sweep.dir == theirs.hydra.sweep.dir == begun  # the time in it is that of the sweep
    assert len(variants._composed) == 1
