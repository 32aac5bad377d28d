"""Command lines at random: every command, the keys of the schemas themselves, and values that somebody might type.

One generator with two sources of choice: `by_hypothesis`, which shrinks what it finds, and random.Random(seed).choice,
for runs without an end.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from varnet.base.checks import Check
from varnet.cli import attack, compress, reproduce
from varnet.data import DATASETS
from varnet.nn.networks.registry import NETWORKS
from varnet.nn.params import PARAMS
from varnet.nn.priors import PRIORS
from varnet.report import analysis
from varnet.rl import run as rl
from varnet.runs import schema

Choose = Callable[[Sequence[Any]], Any]  # one of these

NUMBERS = (
    "-1", "0", "1", "2", "3", "5", "1_0", "010", "0.5", "-0.5", "1e30", "-1e30", "1e-30", "1e400", "nan", "inf", "-inf",
    "9223372036854775807", "9223372036854775808", "1" + "0" * 30, "1" + "0" * 400,
)  # fmt: skip
TEXTS = (
    "", "null", "true", "false", "yes", "x", "a b", "all", "none", "layer", "sgd", "random", "conv1", "dense1", "é",
    ".", "../x", "/dev/null", "/dev/zero", "~", "x" * 300, "2020-99-99",
    "'a[/b]'", "'[red]x'", "'\x1b[2J'", r"'$\frac$'",
    "'=1+1'", "'a\nb'", '"\\0"', "\udcff", "'\udcff'", "!!python/object:os.system",
)  # fmt: skip
NESTED = (
    "[]", "[1]", "[[1]]", "[1,2]", "[2,1]", "[-1,null]", "[a,b]", "[dense1]", "[1e400,0]", "{}", "{a: 1}",
    "{a: {b: 1}}", "${.}", "${..}", "${nope}", "${seed}", "${name}", "${oc.env:NOPE}", "[${nope}]",
    "[", "]", "{", "'", '"', ",",
)  # fmt: skip
SWEEPS = ("1,2", "range(3)", "range(0,1,0)", "choice(1,2)", "interval(0,1)", "glob(*)")
VALUES = NUMBERS + TEXTS + NESTED + SWEEPS
PREFIXES = ("", "", "", "", "+", "++", "~")
JUNK = (
    "", "=", "==", "=1", "a", "a=b=c", "a.b.c=1", "+=", "~", "--", "--nope", "-x", "--cfg", "--info", "--config-name=x",
)  # fmt: skip


def keys_of(groups: dict[str, Any], beside: Sequence[str]) -> tuple[str, ...]:
    return (*groups, *(f"{group}.{key}" for group, known in groups.items() for key in known), *beside)


def flat_keys(settings: Any) -> tuple[str, ...]:
    groups = {key: tuple(value) for key, value in settings.items() if hasattr(value, "keys")}
    return keys_of(groups, [key for key in settings if key not in groups])


TRAIN = keys_of(schema.groups(), (*schema.KEYS, "experiment", "hydra/launcher", "hydra/job_logging", "hydra.run.dir"))
RL = keys_of(rl.GROUPS, (*rl.KEYS, "hydra/launcher"))
KEYS = {
    "train": TRAIN,
    "rl": RL,
    "evaluate": (*analysis.CHECKS, "device", "nope"),
    "attack": (*flat_keys(OmegaConf.load(attack.DEFAULTS)), "nope"),
    "compress": (*flat_keys(compress.DEFAULTS), "nope"),
    "reproduce": (*reproduce.DEFAULTS, *reproduce.PASSED_ON, "nope"),
    "publish": ("from", "to"),
}
NAMES = {  # that a key may have, beside what anything may have
    "param": tuple(PARAMS), "prior": tuple(PRIORS), "model": tuple(NETWORKS), "dataset": tuple(DATASETS),
}  # fmt: skip


class Case(NamedTuple):
    """What is typed after `varnet`."""

    command: str
    arguments: list[str]


def parsed() -> dict[str, object]:
    """The values that can be read, as they are read."""
    found = {}
    for value in VALUES:
        with contextlib.suppress(Exception):  # whatever YAML raises
            found[value] = OmegaConf.select(OmegaConf.from_dotlist([f"value={value}"]), "value")
    return found


def fitting(checks: dict[str, Check]) -> dict[str, tuple[str, ...]]:
    """Key -> the values that fit it."""
    known = parsed()
    return {key: tuple(value for value in known if check.fits(known[value])) for key, check in checks.items()}


FITTING = fitting({**rl.CHECKS, **analysis.CHECKS, **schema.MODEL_CHECKS, **schema.CHECKS}) | NAMES


def override(choose: Choose, keys: Sequence[str], prefixes: Sequence[str] = PREFIXES) -> str:
    """key=value; half of the time, where such values are known, one that fits."""
    key = choose(keys)
    fit = NAMES.get(key.removesuffix(".name")) or FITTING.get(key)
    value = choose(fit) if fit and choose((True, False)) else choose(VALUES)
    return f"{choose(prefixes)}{key}={value}"


def overrides(choose: Choose, keys: Sequence[str]) -> list[str]:
    """One to three, and now and then something that is no key=value."""
    found = [override(choose, keys) for _ in range(choose((1, 1, 2, 3)))]
    return [*found, choose(JUNK)] if choose(range(8)) == 0 else found


def case(choose: Choose, commands: Sequence[str] = (*KEYS, "fetch", "bench", "report")) -> Case:
    """A command with arguments that are its own but for their values."""
    command = choose(commands)
    if command == "fetch":
        return Case(command, [choose((*VALUES, *DATASETS)), "--data-dir", choose(VALUES)])
    if command == "bench":
        return Case(command, [choose(VALUES), choose(("--threads", "--repeats", "--json", "--nope")), choose(VALUES)])
    if command == "report":
        return Case(command, [choose(VALUES), choose(("--out", "--metrics", "--nope")), choose(VALUES)])
    return Case(command, overrides(choose, KEYS[command]))


def by_hypothesis(make: Callable[[Choose], Any]) -> Any:
    """A strategy that draws what `make` makes."""
    from hypothesis import strategies as st

    return st.composite(lambda draw: make(lambda options: draw(st.sampled_from(options))))()
