"""The configuration of a run of train.py: which keys there are and what their values have to be.

It is checked before anything is written.
"""

from omegaconf import DictConfig, ListConfig, OmegaConf

from varnet.base.checks import (
    COUNT,
    FOLDER,
    FOLDER_INSIDE,
    SEED,
    SWITCH,
    TEXT,
    THREADS,
    Check,
    list_of,
    number,
    one_of,
    or_null,
    whole,
)
from varnet.base.invocation import command
from varnet.data import own_options as dataset_options
from varnet.data.augment import ALTERNATING
from varnet.errors import ConfigError
from varnet.nn.likelihoods import LIKELIHOODS
from varnet.nn.networks.dropping import DROPOUT
from varnet.nn.networks.making import WIDEST
from varnet.nn.networks.registry import own_options as model_options
from varnet.nn.params import PARAMS
from varnet.nn.priors import PRIORS
from varnet.runs.custom import CUSTOM
from varnet.train.optimizer import OPTIMIZERS
from varnet.train.schedule import DECAYS

GROUPS = {  # group -> its keys
    "dataset": (
        "name", "labels", "train_size", "test_size", "validation_size", "augment", "seed", *dataset_options(),
    ),
    "model": ("name", "width", *model_options(), "activation", "bias", "batch_norm", "affine", "dropout", "init"),
    "param": ("name", "layers", "l2"),  # and the options of the parameterizations
    "prior": ("name",),  # and those of the priors
    "schedule": (
        "epochs", "batch_size", "lr", "decay", "decay_from", "warmup", "beta", "beta_from", "beta_until", "log_alpha",
        "optimizer", "momentum", "weight_decay", "beta1", "floor",
    ),
    "schedule.log_alpha": ("lr_mult", "beta2"),
    "likelihood": ("name", "target"),  # and the options of the likelihoods; without the group categorical
    "eval": ("every", "test", "samples", "elbo_samples", "final_elbo_samples", "max_batch"),
}  # fmt: skip
CUSTOM_KEYS = ("name", "target", "options")  # of model=custom and dataset=custom
KEYS = (
    "name", "scale", "seed", "out_dir", "data_dir", "resume", "init_from", "init_experiment", "device", "threads",
    "precision", "channels_last", "compile", "deterministic", "checkpoint_every", "checkpoint_minutes",
    "patience_minutes", "snapshots",
)  # fmt: skip

CHECKS = {
    "seed": SEED,
    "name": FOLDER_INSIDE,
    "out_dir": FOLDER,
    "data_dir": or_null(FOLDER),
    "resume": or_null(FOLDER),
    "init_from": or_null(FOLDER),
    **{f"{group}.name": Check(TEXT.fits, "one of its choices") for group in ("dataset", "model", "param", "prior")},
    "device": Check(TEXT.fits, "auto, cpu, cuda, cuda:N or mps"),
    "scale": or_null(one_of("small", "half", "fast")),
    "init_experiment": or_null(TEXT),
    "threads": THREADS,
    "precision": one_of("fp32", "bf16", "fp16"),
    "channels_last": one_of("auto", True, False),
    "compile": SWITCH,
    "deterministic": SWITCH,
    "checkpoint_every": whole(1),
    "checkpoint_minutes": or_null(number(0, above=True)),
    "patience_minutes": or_null(number(0, 1e6, above=True)),
    "snapshots": or_null(list_of(whole(1), "a list of epochs, e.g. [10,20]")),
    "eval.every": whole(1),
    "eval.test": or_null(one_of("end")),
    "eval.samples": COUNT,
    "eval.elbo_samples": COUNT,
    "eval.final_elbo_samples": or_null(COUNT),
    "eval.max_batch": whole(1),
    "schedule.epochs": whole(1, 10**7),
    "schedule.batch_size": or_null(whole(1)),
    "schedule.lr": number(0, above=True),
    "schedule.decay": one_of(*DECAYS),
    "schedule.warmup": number(0),
    "schedule.decay_from": or_null(number(0)),
    "schedule.beta": number(0),
    "schedule.beta_from": number(0),
    "schedule.beta_until": number(0),
    "schedule.optimizer": or_null(one_of(*OPTIMIZERS)),
    "schedule.momentum": or_null(number(0, 1, below=True)),
    "schedule.weight_decay": or_null(number(0)),
    "schedule.beta1": or_null(number(0, 1, below=True)),
    "schedule.floor": or_null(number(0)),
    "schedule.log_alpha.lr_mult": number(0, above=True),
    "schedule.log_alpha.beta2": number(0, 1, below=True),
    "param.l2": number(0),
    "dataset.augment": one_of(True, False, ALTERNATING),
}
MODEL_CHECKS = {
    "model.width": number(0, WIDEST, above=True),
    "model.bias": or_null(SWITCH),
    "model.affine": or_null(SWITCH),
    "model.dropout": or_null(DROPOUT),
    "model.init": or_null(number(0, above=True)),
}
CUSTOM_CHECKS = {
    "model.target": Check(TEXT.fits, "the import path of your function, package.module:function"),
    "model.options": or_null(Check(lambda v: isinstance(v, DictConfig), "its arguments, e.g. {hidden: 100}")),
}


def check_values(
    cfg: DictConfig, groups: dict[str, tuple[str, ...]], keys: tuple[str, ...], checks: dict[str, Check], command: str
) -> None:
    """Groups that are groups, keys that are known in them and beside them, values that fit."""
    for group, known in groups.items():
        found = looked_up(cfg, group, "one of its choices")
        if not isinstance(found, DictConfig):
            raise ConfigError(f"is invalid: {command} --help lists the choices", group, found)
        for key in found:
            if key not in known:
                raise ConfigError(f"is not known: choose from {', '.join(known)}", f"{group}.{key}", _raw(found, key))
    for key in cfg:
        if key not in keys and key not in groups:
            raise ConfigError(f"is not known: {command} --help lists the keys", str(key), _raw(cfg, key))
    check_each(cfg, checks)
    try:
        OmegaConf.to_container(cfg, resolve=True)
    except Exception as error:  # of a key that is checked where it is used
        raise _without_value(error, getattr(error, "full_key", None), "or null") from error


def check_each(cfg: DictConfig, checks: dict[str, Check]) -> None:
    for key, check in checks.items():
        check(key, looked_up(cfg, key, check.wanted))


def looked_up(cfg: DictConfig, key: str, wanted: str) -> object:
    """Its value, whose interpolations, ${...}, lead somewhere."""
    try:
        value = OmegaConf.select(cfg, key)
        if isinstance(value, ListConfig):
            OmegaConf.to_container(value, resolve=True)
        return value
    except Exception as error:  # besides OmegaConf's own a RecursionError and what a resolver raises
        raise _without_value(error, key, wanted) from error


def _without_value(error: Exception, key: str | None, wanted: str) -> ConfigError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ConfigError(f"has no value ({reason}): give one, {wanted}", key)


def _raw(cfg: DictConfig, key: object) -> object:
    """The value as it was written."""
    return OmegaConf.to_container(cfg, resolve=False)[key]


def groups() -> dict[str, tuple[str, ...]]:
    """The groups with all their keys, those of a parameterization or prior of the user's own among them."""
    registered = {"param": PARAMS, "prior": PRIORS, "likelihood": LIKELIHOODS}
    return GROUPS | {group: (*GROUPS[group], *known.options()) for group, known in registered.items()}


def check(cfg: DictConfig) -> None:
    """Values of the right kind and range; what depends on data and model is checked when they are made."""
    model = looked_up(cfg, "model", "one of its choices")
    custom = isinstance(model, DictConfig) and looked_up(model, "name", "a name") == CUSTOM
    known = groups() | ({"model": CUSTOM_KEYS} if custom else {})
    if "likelihood" not in cfg:
        del known["likelihood"]
    check_values(cfg, known, KEYS, CHECKS | (CUSTOM_CHECKS if custom else MODEL_CHECKS), command("train"))
    schedule = cfg.schedule
    if late := [epoch for epoch in cfg.get("snapshots") or () if epoch > schedule.epochs]:
        last = f"schedule.epochs={schedule.epochs}"
        text = f"is invalid: epoch {late[0]} comes after the last one, {last}; use earlier ones, or snapshots=null"
        raise ConfigError(text, "snapshots", cfg.snapshots)
    decay_from = schedule.get("decay_from")
    if decay_from is not None and (schedule.decay == "constant" or decay_from >= schedule.epochs):
        conditions = f"schedule.decay={schedule.decay} and schedule.epochs={schedule.epochs}"
        raise ConfigError(
            f"leaves nothing to decay with {conditions}: use an earlier epoch, or null",
            "schedule.decay_from",
            decay_from,
        )
    if schedule.beta_until < schedule.beta_from:
        raise ConfigError(
            f"comes before schedule.beta_from={schedule.beta_from}: use a later epoch",
            "schedule.beta_until", schedule.beta_until,
        )  # fmt: skip
