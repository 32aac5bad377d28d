"""Run folders written by hand: finished runs without the runs."""

import json

from omegaconf import OmegaConf

from varnet.launch.queue import Job


def finished(job: Job, **metrics) -> None:
    """The metrics of a finished run in its folder."""
    job.folder().mkdir(parents=True)
    values = {"acc_1": 98.0, "acc_det": 11.0, "acc_k": 99.0, "elbo": -5.0, "data_term": -4.0, "kl": 1.0, "epochs": 200}
    content = values | {"seed": job.seed, "commit": "0123456789abcdef", "samples": 20} | metrics
    (job.folder() / "metrics.json").write_text(json.dumps(content))


def complete(job: Job, lines: list[dict] | None = None, **metrics) -> None:
    """The same with configuration and history."""
    finished(job, **metrics)
    (job.folder() / ".hydra").mkdir()
    OmegaConf.save(job.config(), job.folder() / ".hydra" / "config.yaml", resolve=True)
    lines = lines or [{"epoch": 1, "kl": 1.23456789, "acc_k": None, "log_alpha": {"dense1": {"mean": 0.5, "min": 0}}}]
    (job.folder() / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
