"""What is kept of a run when its folder is gone: configuration, metrics and curves, in one JSON file.

Tables are built from run folders and records together, so that seeds run on other days and other machines add up.
"""

import json
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from varnet.base.nested import without_nulls
from varnet.errors import ConfigError
from varnet.runs import folder as run
from varnet.runs.identity import identity, plain
from varnet.runs.past import history

PRIVATE = ("out_dir", "data_dir", "resume")  # places on the machine of the run
CURVES = (
    "epoch",
    "elbo",
    "data_term",
    "kl",
    "train_acc",
    "acc_det",
    "acc_1",
    "acc_k",
    "acc_zero_mean_k",
    "train_rmse",
    "rmse_det",
    "rmse_1",
    "rmse_k",
    "rmse_zero_mean_k",
    "coverage_k",
    "compression",
)


def of_folder(folder: Path) -> dict:
    """The record of a finished run."""
    config = without_nulls(plain(run.stored_config(folder)))
    return {
        "config": {key: value for key, value in config.items() if key not in PRIVATE},
        "metrics": run.finished(folder),
        "history": [_curves(line) for line in history(folder)],
    }


def _curves(line: dict) -> dict:
    """One epoch, numbers to six digits; of log alpha the means of the layers."""
    values = {key: _short(line[key]) for key in CURVES if line.get(key) is not None}
    alphas = {layer: {"mean": _short(value["mean"])} for layer, value in line.get("log_alpha", {}).items()}
    return values | ({"log_alpha": alphas} if alphas else {})


def _short(value: float) -> float:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def file_name(record: dict) -> str:
    """By the run's own name: experiments that are the same run have one record."""
    config = record["config"]
    kind = "" if config["precision"] == "fp32" else f"-{config['precision']}"
    return f"{config['name'].replace('/', '_')}{kind}-seed{record['metrics']['seed']}.json"


def as_json(record: dict) -> str:
    """Readable where a person looks, one line for every epoch."""
    curves = record.get("history") or []
    text = json.dumps({key: value for key, value in record.items() if key != "history"}, indent=1)
    if not curves:
        return text + "\n"
    lines = ",\n  ".join(json.dumps(line) for line in curves)
    return f'{text[:-2]},\n "history": [\n  {lines}\n ]\n}}\n'


def read(folder: Path) -> list[dict]:
    """All records of a folder."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            record = {"history": [], **json.loads(path.read_text())}
            file_name(record), kind(OmegaConf.create(record["config"]))  # have what is asked of them later
            found.append(record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OmegaConfBaseException) as error:
            raise ConfigError(f"{path} is not a record of a run: restore it, or delete it") from error
    return found


def kind(config: DictConfig) -> dict:
    """What records of one row have in common: the configuration but for seed and precision."""
    return {key: value for key, value in identity(config).items() if key not in ("seed", "precision")}
