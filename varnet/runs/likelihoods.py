"""A configuration -> its likelihood, and the data as that takes them; without the group `likelihood` categorical."""

from collections.abc import Callable
from dataclasses import replace

from omegaconf import DictConfig

from varnet.base.importing import imported
from varnet.data import Dataset
from varnet.errors import ConfigError
from varnet.nn.likelihoods import CATEGORICAL, Given, Likelihood, likelihood_of
from varnet.runs.custom import CUSTOM
from varnet.runs.identity import plain

SPLITS = ("train_y", "test_y", "validation_y")


def chosen(cfg: DictConfig) -> Likelihood:
    """The likelihood that the configuration names, in no units yet."""
    if "likelihood" not in cfg:
        return CATEGORICAL
    options = plain(cfg.likelihood)
    name = options.pop("name", None)
    try:
        if name == CUSTOM:
            return likelihood_of(imported(options.get("target"), "target"))
        return likelihood_of(name, **{key: value for key, value in options.items() if value is not None})
    except ConfigError as error:
        raise (error.called("name") if error.key == "likelihood" else error).under("likelihood") from error


def fitted(cfg: DictConfig, data: Dataset) -> Likelihood:
    """The likelihood of a run: in the units of its training targets, where it says so."""
    return _asked(cfg, data, lambda: chosen(cfg).fitted(data.train_y))


def suited(cfg: DictConfig, data: Dataset) -> Dataset:
    """The targets as the likelihood takes them: their values are looked at here, once, and in no step."""
    likelihood = chosen(cfg)
    if likelihood.classes:
        if not data.classes:
            why = (
                f"has {data.targets} numbers for a target and no classes: use likelihood=gaussian, bernoulli or poisson"
            )
            raise ConfigError(why, "dataset", data.name)
        return data
    if isinstance(likelihood, Given):  # a function takes targets as they are
        return data
    given = {key: y for key in SPLITS if (y := getattr(data, key)) is not None}
    _asked(cfg, data, lambda: [likelihood.check_type(y) for y in given.values()])
    numbers = {key: y.reshape(len(y), -1).float() for key, y in given.items()}
    _asked(cfg, data, lambda: [likelihood.check_values(y) for y in numbers.values()])
    return replace(data, **numbers, classes=0)


def _asked(cfg: DictConfig, data: Dataset, question: Callable) -> Likelihood:
    """What the likelihood says of the targets, an error of it about the dataset."""
    try:
        return question()
    except ConfigError as error:
        raise ConfigError(f"{error.text} (its targets are {error.value})", "dataset", data.name) from error
