"""Runs side by side as networks: those that differ only in their seeds are one, and which of them are related.

Networks of one seed and architecture begin with the same weights, and adversarial images of one then fool the other.
"""

from pathlib import Path

from varnet.config import ConfigError, flat, identity, shown
from varnet.run import Finished

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
        if twin := [other for other, one in group.items() if one.cfg.seed == found.cfg.seed]:
            raise ConfigError(f"{place} is the same run as {twin[0]}, with the same seed: name every network once")
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


def source_of(networks: Networks) -> tuple[Path, Finished]:
    """The run on which images for the others are made: the last of the network named first."""
    return list(next(iter(networks.values())).items())[-1]


def strangers_first(networks: Networks, name: str) -> list[Finished]:
    """The runs of a network, those not of the source's seed first: the first is shown the source's images."""
    if name == next(iter(networks)):
        return list(networks[name].values())
    return sorted(networks[name].values(), key=lambda run: run.cfg.seed == source_of(networks)[1].cfg.seed)


def caution(networks: Networks) -> str | None:
    """A sentence if a network has no run but those that began as the source did."""
    place, source = source_of(networks)
    same = [
        name for name in list(networks)[1:]
        if all(run.cfg.seed == source.cfg.seed for run in networks[name].values())
        and strangers_first(networks, name)[0].cfg.model == source.cfg.model
    ]  # fmt: skip
    if not same:
        return None
    return f"{', '.join(same)} began with the weights of {place}, whose images were shown to it: add another seed"
