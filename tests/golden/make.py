"""Make the golden files: what may not move when the code does (identities, names, stored runs).

    python tests/golden/make.py            identity.json and state_dicts.json, which no processor changes
    python tests/golden/make.py bits       prints hashes of the weights and numbers of tiny seeded runs: to be compared
                                           between two commits on one machine
    python tests/golden/make.py runs       the run folders that later versions must open, resume and evaluate

It is run at a commit whose results are trusted; tests/test_golden.py compares.
"""

import hashlib
import itertools
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT)]

import torch  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402

from tests.composing import composed, tiny  # noqa: E402
from varnet.cli.train import run  # noqa: E402
from varnet.runs import records
from varnet.runs.build import build_model, load_data
from varnet.runs.folder import folder_of
from varnet.runs.identity import digest
from varnet.train.checkpoint import read

CONFIGS = ROOT / "configs"
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
    folder = CONFIGS / group
    return sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.yaml"))


def combinations() -> list[tuple[str, ...]]:
    return list(itertools.product(*map(names, GROUPS)))


def identity_of(*overrides: str) -> str:
    return digest(composed(*overrides))


def identities() -> dict:
    experiments = {name: identity_of(f"experiment={name}") for name in names("experiment")}
    combined = {
        " ".join(choice): identity_of(*(f"{g}={c}" for g, c in zip(GROUPS, choice, strict=True)))
        for choice in combinations()
    }
    kinds = {}
    for path in sorted((ROOT / "docs" / "results" / "runs").glob("*.json")):
        kinds[path.name] = kind_of(json.loads(path.read_text()))
    return {"experiments": experiments, "combinations": combined, "records": kinds}


def kind_of(record: dict) -> str:
    kind = records.kind(OmegaConf.create(record["config"]))
    return hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:16]


def state_dicts() -> dict:
    """The names and shapes of what every model x param learns or keeps."""
    found = {}
    for model, param in itertools.product(names("model"), names("param")):
        for extra in ([], ["prior=gaussian", "prior.learn_scale=true"]):
            cfg = composed(f"model={model}", f"param={param}", "model.width=0.05", *extra,
                           *([] if model == "toy" else ["dataset=digits"]))  # fmt: skip
            state = build_model(cfg, load_data(cfg)).state_dict()
            found[" ".join([model, param, *extra[:1]])] = {key: list(value.shape) for key, value in state.items()}
    return found


def bits() -> dict:
    found = {}
    for name, overrides in BITS.items():
        with tempfile.TemporaryDirectory() as folder:
            cfg = tiny(Path(folder), *overrides)
            metrics = run(cfg)
            weights = read(folder_of(cfg) / "checkpoint.pt")["model"]
        digest = hashlib.sha256()
        for key in sorted(weights):
            digest.update(key.encode() + weights[key].contiguous().numpy().tobytes())
        numbers = {key: metrics[key] for key in ("elbo", "kl", "acc_det", "acc_1", "acc_k", "nll_k", "acc_zero_mean_k")}
        found[name] = {"weights": digest.hexdigest()[:16], **numbers}
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
