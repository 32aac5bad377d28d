"""A parameterization and a prior from their names and the options of both, which are given together."""

from typing import Any

from varnet.errors import ConfigError
from varnet.nn.params import PARAMS, Parameterization
from varnet.nn.priors import PRIORS, Prior
from varnet.nn.registry import options_of


def made(param: str | Parameterization, prior: str | Prior, options: dict[str, Any]) -> tuple[Parameterization, Prior]:
    """An option goes to the one of the two that has it; one that only others have is looked at and left out."""
    own = options_of(PARAMS.find(param)), options_of(PRIORS.find(prior))
    known = PARAMS.options(), PRIORS.options()
    split: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for key, value in options.items():
        owners = [i for i in (0, 1) if key in own[i]] or [i for i in (0, 1) if key in known[i]]
        if not owners:
            raise ConfigError(f"is not known: choose from {', '.join(sorted({*known[0], *known[1]}))}", key, value)
        if len(owners) == 2:
            raise ConfigError(f"is an option of both param={param} and prior={prior}: rename one of them", key, value)
        split[owners[0]][key] = value
    found = PARAMS.make(param, split[0]), PRIORS.make(prior, split[1])
    found[1].check(found[0])
    return found
