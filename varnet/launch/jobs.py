"""One job of a sweep, wherever its launcher runs it: a share of the machine, and a note of how it ended.

A job that fails raises JobFailed, an ordinary exception: Hydra's launchers then go on with the other jobs, and Optuna
counts a failed trial. What happened is left in the sweep's folder, where the process that started the sweep reads it.
"""

import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from varnet.base.files import write_atomically
from varnet.base.parent import end_with_parent
from varnet.base.signals import preemption_signal
from varnet.errors import JobFailed, Stopped, one_line
from varnet.runs.folder import folder_of
from varnet.runs.schema import check

log = logging.getLogger("varnet")


def execute(cfg: DictConfig, attempt: Callable[[DictConfig], dict]) -> dict:
    """attempt(cfg) as a job of the sweep that Hydra is in."""
    end_with_parent()
    hydra = HydraConfig.get()
    cfg.threads = cfg.threads or threads_for(hydra.launcher, cores())
    cfg.device = device_for(cfg.device, hydra.launcher, hydra.job.num, torch.cuda.device_count())
    note = {"overrides": list(hydra.overrides.task), "folder": None, "reason": None}
    path = Path(hydra.sweep.dir) / f"job{hydra.job.num}.json"
    try:
        check(cfg)
        note["folder"] = str(folder_of(cfg))
        leave(path, note)
        return attempt(cfg)
    except Stopped as error:
        code, reason = error.code, str(error)
    except Exception as error:
        traceback.print_exc()
        code, reason = 1, f"{type(error).__name__}: {one_line(error)}"
    log.error("failed: %s", reason)
    leave(path, note | {"reason": reason})
    hand_over(code, hydra.launcher._target_)
    raise JobFailed(reason)


def leave(path: Path, note: dict) -> None:
    """Write a note for the process that started the sweep."""
    write_atomically(path, (json.dumps(note) + "\n").encode())


def hand_over(code: int, launcher: str) -> None:
    """A signal ended the run, and it is saved. In the process that started the sweep it ends the sweep; in a submitit
    job submitit's own handler now puts the job into the queue again."""
    if code < 128:
        return
    if launcher.endswith("BasicLauncher"):
        sys.exit(code)
    if code - 128 == preemption_signal():
        signal.raise_signal(code - 128)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(launcher: DictConfig, cores: int) -> int | None:
    """Threads of one job: joblib's jobs share the cores, others have what their launcher asks for; None: all cores."""
    jobs = launcher.get("n_jobs")
    if jobs is not None:
        return max(1, cores // max(1, cores + 1 + jobs if jobs < 0 else jobs))
    return launcher.get("cpus_per_task") or OmegaConf.select(launcher, "ray.remote.num_cpus")


def device_for(device: str, launcher: DictConfig, job: int, gpus: int) -> str:
    """joblib's jobs take the GPUs of the machine in turn."""
    shared = "n_jobs" in launcher and gpus > 1 and device in ("auto", "cuda")
    return f"cuda:{job % gpus}" if shared else device
