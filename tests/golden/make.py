"""Make the golden files: what may not move when the code does (identities, names, stored runs).

    python -m tests.golden.make            identity.json and state_dicts.json, which no processor changes
    python -m tests.golden.make bits       prints hashes of the weights and numbers of tiny seeded runs: to be compared
                                           between two commits on one machine
    python -m tests.golden.make runs       the run folders that later versions must open, resume and evaluate

It is run at a commit whose results are trusted; tests/test_golden.py compares.
"""

import functools
import hashlib
import itertools
import json
import sys
import tempfile
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from tests.composing import ROOT, composed, tiny
from varnet.cli.train import run
from varnet.runs import records
from varnet.runs.build import build_model, load_data
from varnet.runs.folder import folder_of
from varnet.runs.identity import digest
from varnet.train.checkpoint import read

HERE = Path(__file__).resolve().parent
CONFIGS, RECORDS = ROOT / "configs", ROOT / "docs" / "results" / "runs"
GROUPS = ("dataset", "model", "param", "prior")
BITS = {
    "demo": ("experiment=demo", "schedule.epochs=2"),
    "all layers": ("param.layers=all", "param=weight", "prior=ard"),
    "additive student": ("param=additive", "prior=student", "param.layers=all"),
    "zero_mean bernoulli": ("param=zero_mean", "param.noise=bernoulli"),
    "vgg": ("model=vgg", "schedule.batch_size=10"),
    "sparse": ("experiment=sparse_lenet5",),
    "dropout": ("param=dropout",),
}


def names(group: str) -> list[str]:
    """The choices of a group but custom, which is the user's own."""
    paths = [path.relative_to(CONFIGS / group) for path in (CONFIGS / group).rglob("*.yaml")]
    return sorted(str(path.with_suffix("")) for path in paths if path.stem != "custom")


def combinations() -> list[tuple[str, ...]]:
    return list(itertools.product(*map(names, GROUPS)))


@functools.cache
def _chosen(*overrides: str) -> DictConfig:
    return composed(*overrides)


def combined(dataset: str, model: str, param: str, prior: str, *overrides: str) -> DictConfig:
    """What Hydra composes of these choices, from one composition for every choice: only a model brings others."""
    cfg = _chosen(f"dataset={dataset}", f"model={model}", *overrides).copy()
    cfg.param, cfg.prior = _chosen(f"param={param}").param, _chosen(f"prior={prior}").prior
    return cfg


def identities() -> dict:
    experiments = {name: digest(composed(f"experiment={name}")) for name in names("experiment")}
    every = {" ".join(choice): digest(combined(*choice)) for choice in combinations()}
    kinds = {path.name: kind_of(json.loads(path.read_text())) for path in sorted(RECORDS.glob("*.json"))}
    return {"experiments": experiments, "combinations": every, "records": kinds}


def kind_of(record: dict) -> str:
    kind = records.kind(OmegaConf.create(record["config"]))
    return hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:16]


def state_dicts() -> dict:
    """The names and shapes of what every model x param learns or keeps, also with a learned prior."""
    found = {}
    for model, param in itertools.product(names("model"), names("param")):
        for prior in ("loguniform", "gaussian"):
            cfg = combined("toy" if model == "toy" else "digits", model, param, prior, "model.width=0.05")
            if prior == "gaussian":
                cfg.prior.learn_scale = True
            key = f"{model} {param}" + (" prior=gaussian" if prior == "gaussian" else "")
            found[key] = shapes(cfg)
    return found


def shapes(cfg: DictConfig) -> dict[str, list[int]]:
    return {name: list(value.shape) for name, value in build_model(cfg, load_data(cfg)).state_dict().items()}


def bits() -> dict:
    found = {}
    for name, overrides in BITS.items():
        with tempfile.TemporaryDirectory() as folder:
            cfg = tiny(Path(folder), *overrides)
            metrics = run(cfg)
            weights = read(folder_of(cfg) / "checkpoint.pt")["model"]
        weighed = hashlib.sha256()
        for key in sorted(weights):
            weighed.update(key.encode() + weights[key].contiguous().numpy().tobytes())
        numbers = {key: metrics[key] for key in ("elbo", "kl", "acc_det", "acc_1", "acc_k", "nll_k", "acc_zero_mean_k")}
        found[name] = {"weights": weighed.hexdigest()[:16], **numbers}
    return found


def runs() -> None:
    """A finished run, and one that was stopped after its second epoch, with its last checkpoint."""
    for name, epochs in (("finished", 3), ("interrupted", 3)):
        cfg = tiny(HERE / "runs", f"name={name}", "schedule.epochs=3", "checkpoint_every=1", "param.layers=all")
        folder = folder_of(cfg)
        run(cfg)
        if name == "interrupted":
            lines = (folder / "history.jsonl").read_text().splitlines()
            (folder / "history.jsonl").write_text("\n".join(lines[: epochs - 1]) + "\n")
            (folder / "checkpoint.previous.pt").replace(folder / "checkpoint.pt")
            (folder / "metrics.json").unlink()
        for pattern in ("events*", "*.png", "checkpoint.previous.pt", ".lock"):
            for path in folder.glob(pattern):
                path.unlink()
        saved = folder / ".hydra" / "config.yaml"
        saved.write_text(saved.read_text().replace(f"out_dir: {HERE}/runs", "out_dir: outputs"))


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    if arguments == ["bits"]:
        print(json.dumps(bits(), indent=1))
    elif arguments == ["runs"]:
        runs()
    else:
        for name, content in (("identity", identities()), ("state_dicts", state_dicts())):
            (HERE / f"{name}.json").write_text(json.dumps(content, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
