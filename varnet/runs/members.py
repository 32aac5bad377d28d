"""Several runs opened as one network: deep ensembles (the baselines of section 6.3) and snapshot ensembles, of the
checkpoints that a run keeps on its way (`snapshots=[10,20,30]`)."""

from collections.abc import Iterable
from pathlib import Path

from varnet.errors import CheckpointError, ConfigError
from varnet.evaluation.ensemble import Ensemble
from varnet.runs.folder import Targets
from varnet.runs.identity import identity
from varnet.runs.opening import Finished, open_finished
from varnet.train import checkpoint


def open_ensemble(places: Iterable[Path], data_dir: str | None = None, targets: Targets | None = None) -> Finished:
    """Folders of finished runs, and files snapshot_EPOCH.pt in them -> one network with the data of the first.

    What is told about the run is the first one's; its name says that it is an ensemble.
    """
    places = [Path(place) for place in places]
    members = open_members(places, data_dir, targets)
    first = members[0]
    cfg = first.cfg.copy()
    cfg.name = f"ensemble of {len(members)}: {first.cfg.name}"
    model = Ensemble([member.model for member in members])
    return Finished(first.folder, cfg, first.metrics, first.data, model, tuple(map(str, places)), first.likelihood)


def open_members(places: Iterable[Path], data_dir: str | None = None, targets: Targets | None = None) -> list[Finished]:
    """Each once, and all for the same data."""
    places = list(places)
    found, seen = [], []
    for place in map(Path, places):
        one = _opened(place, data_dir, targets)
        own = identity(one.cfg) | {"epochs": _epochs(place, one)}
        if own in seen:
            twin = places[seen.index(own)]
            raise ConfigError(f"{place} is the same network as {twin}, seed and all: name every network once")
        seen.append(own)
        found.append(one)
        _check_fits(one, found[0], place, places[0])
    if not found:
        raise ConfigError("there is no run to open: name the folders of finished runs")
    return found


def snapshots(folder: Path) -> list[Path]:
    """The snapshots of a run, by epoch."""
    found = {path: path.stem.removeprefix("snapshot_") for path in folder.glob("snapshot_*.pt")}
    return sorted((path for path, epoch in found.items() if epoch.isdigit()), key=lambda path: int(found[path]))


def _opened(place: Path, data_dir: str | None, targets: Targets | None) -> Finished:
    """A run as it ended, or as it was at a snapshot."""
    if place.suffix != ".pt":
        return open_finished(place, data_dir, targets)
    kept = snapshots(place.parent)
    if place not in kept:
        there = ", ".join(path.name for path in kept) or "none"
        raise ConfigError(f"{place} is no snapshot (in its folder: {there}): name one, or the folder of a run")
    found = open_finished(place.parent, data_dir, targets)
    try:
        state = checkpoint.read(place)
    except CheckpointError as error:
        raise ConfigError(f"{error}: take another snapshot, or the folder of the run") from error
    if (state["config"], state.get("epoch")) != (identity(found.cfg), _epochs(place, found)):
        raise ConfigError(f"{place} is not of that epoch of the run in its folder: take a snapshot of the same run")
    try:
        found.model.load_state_dict(state["model"])
    except RuntimeError as error:
        raise ConfigError(f"{place} does not fit the model of its run: take another snapshot") from error
    return found


def _epochs(place: Path, found: Finished) -> int:
    """That the weights were trained for."""
    return int(place.stem.removeprefix("snapshot_")) if place.suffix == ".pt" else found.cfg.schedule.epochs


def _check_fits(found: Finished, first: Finished, place: Path, first_place: Path) -> None:
    for what, mine, wanted in (
        ("input shape", found.data.in_shape, first.data.in_shape),
        ("classes", found.data.classes, first.data.classes),
        ("dataset", found.data.name, first.data.name),
        ("dataset.target", found.cfg.dataset.get("target"), first.cfg.dataset.get("target")),
        ("dataset.options", found.cfg.dataset.get("options"), first.cfg.dataset.get("options")),
        ("likelihood", found.cfg.get("likelihood"), first.cfg.get("likelihood")),
        ("dataset.labels", found.cfg.dataset.get("labels"), first.cfg.dataset.get("labels")),
    ):
        if mine != wanted:
            raise ConfigError(
                f"{place} does not fit {first_place}: {what} {mine} against {wanted}; take runs on the same data"
            )
