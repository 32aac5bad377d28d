"""A finished run -> a stored network: its weights as safetensors and a card, whose numbers are measured on what was
stored, after it was read back."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml
from omegaconf import OmegaConf

from varnet.base import tensors
from varnet.base.checks import Check
from varnet.base.files import write_atomically
from varnet.compress.compacting import compact
from varnet.errors import ConfigError
from varnet.report.analysis import Analysis
from varnet.report.card import index, page
from varnet.runs import likeness, shelf
from varnet.runs.composing import CONFIGS
from varnet.runs.identity import plain
from varnet.runs.opening import Finished
from varnet.runs.packing import packed
from varnet.runs.provenance import commit

LARGEST = 32_000_000  # bytes of a network
TOGETHER, SMALL = 15_000_000, 4_000_000  # of all that are small, and of the largest of these
NAME = Check(lambda v: isinstance(v, str) and v.isidentifier() and v.islower(), "small letters, digits and _")
DRAWS = 10  # of the weights for the whole test set
KEPT = ("accuracy", "accuracy_interval", "nll", "brier", "ece")  # of a mode's numbers


def shelve(run: Finished, name: str, about: str, half: bool, threshold: float | None, root: Path) -> Path:
    """Store a run under a name in the folder `root`, in place of what has that name; its folder.

    half       weights in half precision: the numbers of the card are those of the rounded ones
    threshold  of log alpha: store what is left without the weights from it on, as a compact network; None: all
    """
    check(run, name, half, threshold)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".") as place:
        folder = Path(place, name)
        folder.mkdir()
        card = describe(run, name, about, half, threshold, folder)
        if (size := (folder / shelf.FILE).stat().st_size) > LARGEST:
            raise ConfigError(f"{name} would take {size:,} bytes, more than {LARGEST:,}: store it with half=true")
        write(card, folder)
        card |= measured(run, folder)
        write(card, folder)
        write_atomically(folder / "README.md", page(card))
        shutil.rmtree(root / name, ignore_errors=True)
        folder.rename(root / name)
    write_atomically(root / "README.md", index([shelf.read_card(path.parent) for path in cards(root)]))
    return root / name


def check(run: Finished, name: str, half: bool, threshold: float | None) -> None:
    """Refuse what could not be opened again."""
    NAME("network", name)
    if run.members or "custom" in (run.cfg.model.name, run.cfg.dataset.name):
        raise ConfigError(f"{run.folder} is an ensemble, or needs code of your own: store a run of varnet's networks")
    if half and threshold is not None:
        raise ConfigError("has no meaning for a compact network, which is small: leave it out", "half", True)


def cards(root: Path) -> list[Path]:
    return sorted(root.glob(f"[!.]*/{shelf.CARD}"))


def describe(
    run: Finished, name: str, about: str, half: bool, threshold: float | None, folder: Path
) -> dict[str, Any]:  # fmt: skip
    """Write the tensors; what the card says of them and of the run."""
    more: dict[str, Any] = {}
    if threshold is None:
        state = {key: stored(value, half) for key, value in run.model.state_dict().items()}
    else:
        state, more = packed(compact(run.model, threshold))
        more["threshold"] = threshold
    tensors.save(folder / shelf.FILE, state)
    data = run.data
    return {
        "format": shelf.FORMAT, "name": name, "about": about, "kind": "network" if threshold is None else "compact",
        "commit": run.metrics.get("commit"), "stored_by": commit(), "seed": run.cfg.seed,
        "bytes": (folder / shelf.FILE).stat().st_size, "precision": "half" if half else "float32",
        "sha256": shelf.digest(folder / shelf.FILE), "in_shape": list(data.in_shape), "classes": data.classes,
        "mean": data.mean and list(data.mean), "std": data.std and list(data.std),
        "config": {key: value for key, value in plain(run.cfg).items() if key not in shelf.PLACES},
        "metrics": run.metrics, **more,
    }  # fmt: skip


def stored(tensor: torch.Tensor, half: bool) -> torch.Tensor:
    """A tensor as it is stored. Only weights are rounded: statistics of batch norm and log alpha are few."""
    return tensors.halved(tensor) if half and tensor.is_floating_point() and tensor.dim() > 1 else tensor


def measured(run: Finished, folder: Path) -> dict[str, Any]:
    """What the stored network does on the test set, in every mode; and on images that everyone has."""
    found = shelf.load(folder)
    defaults = OmegaConf.load(CONFIGS / "evaluate.yaml")
    defaults.eval.draws = DRAWS
    analysis = Analysis(run._replace(model=found.model), defaults, torch.device("cpu"))
    analysis.modes()
    modes = {name: {key: of[key] for key in KEPT} for name, of in analysis.results["modes"].items()}
    if "one sample" in modes and found.card["kind"] == "network":
        analysis.weight_samples()
        draws = analysis.results["weight_samples"]
        modes["one draw of the weights"] = {"accuracy": float(draws["mean"]), "std": float(draws["std"]), "n": DRAWS}
    about = {"modes": modes, "samples": analysis.samples, "objects": len(run.data.test_y)}
    like = likeness.told(found.model, found.card)
    return about | ({"likeness": like} if like else {})


def write(card: dict[str, Any], folder: Path) -> None:
    write_atomically(folder / shelf.CARD, yaml.safe_dump(card, sort_keys=False, default_flow_style=None, width=120))
