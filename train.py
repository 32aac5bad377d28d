"""Train one network and leave its numbers in a folder: python train.py model=vgg param=layer prior=loguniform

python train.py --help                 groups and keys
python train.py -m seed=0,1,2          one run after the other; hydra/launcher=joblib: several at a time
python train.py resume=FOLDER          go on with an interrupted run
"""

import contextlib
import errno
import json
import logging
import os
import sys
from pathlib import Path

import hydra
import torch
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from varnet import checkpoint, device, distributed, jobs, sweep
from varnet import run as runs
from varnet.command import alone, flags_first, named_folder
from varnet.config import ConfigError, check, explain, plain
from varnet.data.errors import DataError
from varnet.jobs import Stopped
from varnet.logger import Logger
from varnet.table import print_table
from varnet.trainer import Diverged, Interrupted, Trainer

CONFIGS = Path(__file__).resolve().parent / "configs"
log = logging.getLogger("varnet")


def run(cfg: DictConfig, folder: Path | None = None) -> dict:
    """Configuration -> metrics. A finished run is read, an interrupted one continued, a new one begun."""
    check(cfg)
    where = device.find(cfg.device)
    with distributed.joined(where):
        return run_on(where, cfg, folder or runs.folder_of(cfg))


def run_on(where: torch.device, cfg: DictConfig, folder: Path) -> dict:
    if cfg.compile and distributed.active():
        raise ConfigError("compile=true does not go with several processes of one run: leave it out")
    if metrics := distributed.from_first(lambda: runs.finished(folder)):
        log.info("%s is finished already; another seed=, or name=, gives another run", folder)
        return metrics
    if warning := device.caution(where, cfg.precision):
        log.warning(warning)
    device.tune_cpu(cfg.threads)
    torch.use_deterministic_algorithms(cfg.deterministic)
    torch.manual_seed(cfg.seed)
    data = distributed.after_first(lambda: runs.load_data(cfg))
    model = runs.build_model(cfg, data)
    again = distributed.from_first(lambda: checkpoint.exists(folder))
    if cfg.init_from and not again:
        runs.initialise_from(model, Path(cfg.init_from))
    with contextlib.ExitStack() as stack:
        distributed.from_first(lambda: str(stack.enter_context(runs.opened(folder, cfg))))
        trainer = Trainer(cfg, model, data, where, folder)
        distributed.part_ways(trainer.model, cfg.seed)
        if again:
            trainer.load_state_dict(distributed.from_first(lambda: checkpoint.load(folder, put_aside=True)))
            log.info("%s: going on after epoch %d, step %d", folder, trainer.epoch, trainer.step)
        if trainer.rank > 0:
            return trainer.fit()
        trainer.logger = stack.enter_context(Logger(folder, trainer.epoch, trainer.step))
        provenance = runs.provenance(cfg)  # now: the checkout may change while the run goes on
        return finish(trainer, trainer.fit(), provenance)


def finish(trainer: Trainer, last: dict, provenance: dict) -> dict:
    """The final numbers, on disk and in TensorBoard."""
    metrics = {
        **{key: last[key] for key in last if key.startswith(("acc_", "nll_", "sparsity", "compression"))},
        **trainer.final_on_training_set(),
        "log_alpha": {name: values["mean"] for name, values in last["log_alpha"].items()},
        "name": str(trainer.cfg.name),
        "epochs": trainer.epoch,
        "samples": trainer.cfg.eval.samples,
        "seconds": sum(row["seconds"] for row in trainer.logger.history),
        **provenance,
    }
    trainer.logger.hyperparameters(plain(trainer.cfg), metrics)
    checkpoint.write_atomically(trainer.folder / runs.METRICS, (json.dumps(metrics, indent=2) + "\n").encode())
    return metrics


def attempt(cfg: DictConfig, folder: Path | None = None) -> dict:
    """run, with every foreseeable failure said in one sentence."""
    try:
        check(cfg)
        folder = folder or runs.folder_of(cfg)
        metrics = run(cfg, folder)
    except (ConfigError, DataError, checkpoint.CheckpointError) as error:
        raise Stopped(error, 2) from error
    except Diverged as error:
        raise Stopped(f"{error} ({folder})", 3) from error
    except Interrupted as error:
        raise Stopped(f"{error}; saved: go on with python train.py resume={folder}", error.exit_code) from error
    except KeyboardInterrupt as error:
        raise Stopped(f"stopped; go on with python train.py resume={folder}", 130) from error
    except distributed.RankLost as error:
        raise Stopped(f"{error}; go on with the same command ({folder})", 5) from error
    except OSError as error:
        remedy = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "put it right"
        place = error.filename or folder
        message = f"{error.strerror or error} ({place}): what was written before is safe; {remedy} and start again"
        raise Stopped(message, 4) from error
    if distributed.rank() > 0:
        return metrics
    print_table(metrics)
    print(f"run folder: {folder}")
    print(f"picture:    {folder / 'phase_transition.png'}")
    print(f"curves:     tensorboard --logdir {folder.parent.parent}")
    return metrics


def guarded(cfg: DictConfig, folder: Path | None = None) -> dict:
    try:
        return attempt(cfg, folder)
    except Stopped as error:
        stop(error, error.code, known=getattr(error.__cause__, "shared", False))


def stop(message: object, code: int, known: bool = True) -> None:
    """End with one sentence; what all processes of a run know is said by the first of them."""
    rank = distributed.rank()
    if rank == 0 or not known:
        place = f"rank {rank}: " if rank > 0 else ""
        print(place + (f"error: {message}" if code < 128 else str(message)), file=sys.stderr, flush=True)
    sys.exit(code)


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="train")
def main(cfg: DictConfig) -> float:
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        return jobs.execute(cfg, attempt)["acc_k"]
    return guarded(cfg).get("acc_k")


def command_line(arguments: list[str]) -> None:
    """What Hydra would report over many lines is said in one; resume= bypasses composition, -m is a sweep."""
    if distributed.rank() > 0:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the first process speaks for all
    overrides = [a for a in arguments if not a.startswith("-")]
    flags = [a for a in arguments if a.startswith("-")]
    several = set(flags) in ({"-m"}, {"--multirun"})
    try:
        if several and distributed.launched():
            raise ConfigError("-m does not go with torchrun, which makes several processes of one run: use one of them")
        folder, others = named_folder(overrides, "resume")
        if folder:
            alone(folder, "resume", flags)
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
            guarded(runs.resumed(folder, others), folder)
            return
        if several:
            planned = sweep.plan(CONFIGS, overrides)
        elif len(overrides) == len(arguments):
            with initialize_config_dir(str(CONFIGS), version_base="1.3"):
                check(compose("train", overrides))
    except (ConfigError, HydraException, OmegaConfBaseException, ValueError) as error:
        stop(error if isinstance(error, ConfigError) else explain(error, overrides), 2)
    if several:
        sys.exit(sweep.carry_out(planned, main, arguments))
    main()


if __name__ == "__main__":
    sys.argv[1:] = flags_first(sys.argv[1:])
    command_line(sys.argv[1:])
