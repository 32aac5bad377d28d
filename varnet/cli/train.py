"""Train one network and leave its numbers in a folder: python train.py model=vgg param=layer prior=loguniform

python train.py --help                 groups and keys
python train.py -m seed=0,1,2          one run after the other; hydra/launcher=joblib: several at a time
python train.py resume=FOLDER          go on with an interrupted run
"""

import logging
import os
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from varnet.base import distributed
from varnet.base.terminal import tolerate
from varnet.errors import ConfigError
from varnet.launch import jobs, sweep
from varnet.launch.command import alone, by_hydra, flags_first, in_out_dir, named_folder
from varnet.launch.ending import leave, stop, stopped_in_a_sentence
from varnet.launch.table import print_table
from varnet.runs import life
from varnet.runs.composing import CONFIGS, composed
from varnet.runs.folder import folder_of
from varnet.runs.meaning import check_new
from varnet.runs.overrides import said
from varnet.runs.resuming import resumed
from varnet.runs.training import TRAINING

HELD_OUT = ("dataset.validation_size=", "dataset=custom")  # which may have images of its own


def run(cfg: DictConfig, folder: Path | None = None) -> dict:
    """Configuration -> metrics. A finished run is read, an interrupted one continued, a new one begun."""
    return life.run(TRAINING, cfg, folder)


def attempt(cfg: DictConfig, folder: Path | None = None) -> dict:
    """run, with every foreseeable failure said in one sentence, and its numbers shown."""
    metrics = life.attempt(TRAINING, cfg, folder)
    if distributed.rank() == 0:
        folder = folder or folder_of(cfg)
        print_table(metrics)
        print(f"run folder: {folder}")
        print(f"picture:    {folder / 'phase_transition.png'}")
        print(f"curves:     tensorboard --logdir {folder.parent.parent}")
    return metrics


def objective(metrics: dict) -> float | None:
    """What a search maximises: accuracy, or where there is none the likelihood of an object, on the images held out if
    there are any (dataset.validation_size)."""
    if "acc_k" in metrics or "nll_k" not in metrics:
        return metrics.get("acc_k_val", metrics.get("acc_k"))
    return -metrics.get("nll_k_val", metrics["nll_k"])


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="train")
def main(cfg: DictConfig) -> float:
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        return objective(jobs.execute(cfg, attempt))
    return objective(stopped_in_a_sentence(lambda: attempt(cfg)))


def command_line(arguments: list[str]) -> None:
    """What Hydra would report over many lines is said in one; resume= bypasses composition, -m is a sweep."""
    tolerate()
    sys.argv[1:] = arguments = flags_first(arguments)
    if distributed.rank() > 0:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - the first process speaks for all
    overrides = [a for a in arguments if not a.startswith("-")]
    flags = [a for a in arguments if a.startswith("-")]
    several = set(flags) in ({"-m"}, {"--multirun"})
    try:
        if several and distributed.launched():
            raise ConfigError("-m does not go with torchrun, which makes several processes of one run: use one of them")
        in_out_dir(overrides)
        folder, others = named_folder(overrides, "resume")
        if folder:
            alone(folder, "resume", flags)
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
            with said(overrides):
                cfg = resumed(folder, others)
            stopped_in_a_sentence(lambda: attempt(cfg, folder))
            return
        if several:
            with said(overrides):
                planned = sweep.plan(CONFIGS, overrides)
        elif not flags:
            with said(overrides):
                cfg = composed(*overrides)
            check_new(cfg)
        if not several:
            by_hydra(main, overrides, "train")
    except ConfigError as error:
        stop(error, 2)
    if several:
        if not planned.jobs and not any(o.startswith(HELD_OUT) for o in overrides):
            print(f"the search chooses by the test set: with {HELD_OUT[0]}5000 it does by acc_k_val", file=sys.stderr)
        code = sweep.carry_out(planned, main, arguments)
        (leave if planned.ray and code >= 128 else sys.exit)(code)
