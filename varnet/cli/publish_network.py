"""Store a finished run as a trained network that everybody can open (networks/NAME), with its card:

python scripts/publish.py network=NAME from=RUN about="what it is" [key=value ...]

Its accuracy in every mode is measured on what was stored. A run of no commit, or of one with changes, is refused.

half=false       round the weights to half precision: half the size
threshold=null   of log alpha, e.g. 3: store a compact network, without the weights from it on
data_dir=null    folder of the datasets; null: the run's own
threads=null     CPU threads; null: all cores
"""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from varnet.errors import ConfigError

DEFAULTS = {
    "network": None, "from": None, "about": None, "half": False, "threshold": None, "data_dir": None, "threads": None,
}  # fmt: skip


def asked(arguments: list[str]) -> bool:
    """Whether the command of publish.py is this one."""
    return any(argument.startswith("network=") for argument in arguments)


def settings(arguments: list[str]) -> DictConfig:
    from varnet.base.checks import FOLDER, SWITCH, TEXT, THREADS, number, or_null
    from varnet.runs.overrides import overridden

    checks = {
        "network": TEXT, "from": FOLDER, "about": TEXT, "half": SWITCH, "threshold": or_null(number()),
        "data_dir": or_null(FOLDER), "threads": THREADS,
    }  # fmt: skip
    words = [argument for argument in arguments if argument.startswith("about=")]  # whatever YAML would make of them
    options = OmegaConf.create(DEFAULTS | {"about": words[-1].partition("=")[2] if words else None})
    return overridden(options, [argument for argument in arguments if argument not in words], checks)


def main(arguments: list[str], root: Path) -> int:
    """root: of the checkout."""
    from varnet.launch.ending import guarded

    return guarded(lambda: store(settings(arguments), root / "networks"))


def store(options: DictConfig, root: Path) -> None:
    from varnet.base.device import tune_cpu
    from varnet.paper.intake import clean
    from varnet.report.shelving import shelve
    from varnet.runs.opening import open_finished

    tune_cpu(options.threads)
    run = open_finished(Path(options["from"]), options.data_dir)
    if not clean(commit := run.metrics.get("commit")):
        told = f"is of commit {commit}" if commit else "tells no commit"
        raise ConfigError(f"{run.folder} {told}: commit your changes and train it again, as others need its code")
    folder = shelve(run, options.network, options.about, options.half, options.threshold, root)
    print((folder / "README.md").read_text())
    print(f"stored: {folder}")
