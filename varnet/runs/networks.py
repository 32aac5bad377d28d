"""Runs side by side as networks: those that differ only in their seeds are one, and which of them are related.

Networks of one seed and architecture begin with the same weights, and adversarial images of one then fool the other.
"""

from pathlib import Path

from varnet.base.checks import shown
from varnet.base.nested import flat
from varnet.runs.identity import identity
from varnet.runs.opening import Finished

Networks = dict[str, dict[Path, Finished]]  # label -> runs by place; the first network is the source of a transfer


def grouped(runs: dict[Path, Finished]) -> Networks:
    """Runs that differ only in their seeds are one network. Its label is their name, and where unlike runs have one
    name, what tells them apart."""
    kinds: list[tuple[dict, dict[Path, Finished]]] = []
    for place, found in runs.items():
        kind = _kind(place, found)
        group = next((group for known, group in kinds if known == kind), None)
        if group is None:
            group = {}
            kinds.append((kind, group))
        group[place] = found
    return {_label(kind, [other for other, _ in kinds], next(iter(group))): group for kind, group in kinds}


def _kind(place: Path, found: Finished) -> dict:
    snapshot = place.name if place.suffix == ".pt" else None
    return flat(identity(found.cfg)) | {"name": str(found.cfg.name), "seed": None, "snapshot": snapshot}


def _label(kind: dict, kinds: list[dict], place: Path) -> str:
    same_name = [other for other in kinds if other["name"] == kind["name"]]
    keys = sorted({key for other in same_name for key in {*other, *kind} if other.get(key) != kind.get(key)})
    if not keys:
        return kind["name"]
    if len(keys) > 2:  # too many to read
        return f"{kind['name']} ({place.resolve()})"
    return f"{kind['name']} ({', '.join(f'{key}={shown(kind.get(key))}' for key in keys)})"


def seeds_of(networks: Networks) -> dict[str, list[int]]:
    return {name: [run.cfg.seed for run in runs.values()] for name, runs in networks.items()}


def caution(networks: Networks) -> str | None:
    """A sentence if a network has no run but those that began as the source did."""
    seeds, (source, *others) = seeds_of(networks), networks
    model = next(iter(networks[source].values())).cfg.model
    same = [
        name for name in others
        if len({*seeds[source], *seeds[name]}) == 1 and next(iter(networks[name].values())).cfg.model == model
    ]  # fmt: skip
    if not same:
        return None
    return f"{', '.join(same)} began with the weights of {source}, whose images were shown to it: add another seed"
