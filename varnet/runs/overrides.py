"""key=value from a command line, and what Hydra says of it, in one sentence."""

from difflib import get_close_matches

from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from varnet.base.checks import TEXT, Check, list_of, or_null
from varnet.base.invocation import command
from varnet.errors import ConfigError
from varnet.runs.folder import TARGETS, Targets
from varnet.runs.schema import check_each

CUSTOM_KEYS = tuple(f"{group}.{key}" for group in ("model", "dataset") for key in ("target", "options"))
CODE = {  # keys of a script that opens runs: code that these take, which no folder names alone
    key: or_null(
        Check(lambda v: TEXT.fits(v) or list_of(TEXT, "").fits(v), "the import path of the run, or a list of them")
    )
    for key in TARGETS
}


def named_code(options: DictConfig) -> Targets:
    """The import paths that the user of such a script gives."""
    return {key: OmegaConf.select(options, key) or () for key in TARGETS}


def overridden(defaults: DictConfig, overrides: list[str], checks: dict[str, Check]) -> DictConfig:
    """The settings of a script with key=value from the command line; keys of groups are written group.key."""
    known = [
        name for key, value in defaults.items()
        for name in ([f"{key}.{inner}" for inner in value] if isinstance(value, DictConfig) else [key])
    ]  # fmt: skip
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not equals or key not in known:
            problem = f"there is no key {key}" if equals else "it is no key=value"
            raise ConfigError(f"{override}: {problem}; use key=value with one of {', '.join(known)}")
        defaults = OmegaConf.merge(defaults, from_override(override))
    check_each(defaults, checks)
    return defaults


def from_override(override: str) -> DictConfig:
    """key=value as a configuration."""
    try:
        return OmegaConf.from_dotlist([override])
    except YAMLError as error:
        raise ConfigError(f"{override} cannot be read: close its brackets and quotation marks") from error


def explain(error: Exception, overrides: list[str], name: str = "train") -> str:
    """A message of Hydra in one sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "Could not find" in lines[0] and "Available options" in str(error):
        group, _, choice = lines[0].split("'")[-2].rpartition("/")
        options = []
        for line in lines[lines.index(next(x for x in lines if "Available options" in x)) + 1 :]:
            if line.startswith("Config search path"):
                break
            options.append(line)
        close = get_close_matches(choice, options, 1)
        hint = f"; did you mean {group}={close[0]}?" if close else ""
        return f"{group}={choice} is not known: choose one of {', '.join(options)}{hint}"
    if "Could not override" in lines[0]:
        key = lines[0].split("'")[1]
        given = next((o for o in overrides if o.lstrip("+~").startswith(key)), key)
        if key in CUSTOM_KEYS:
            return f"{given}: only {key.split('.')[0]}=custom has the key {key}; give that, too"
        return f"{given}: there is no key {key}; {command(name)} --help lists the keys"
    if "Config group override must be" in lines[0]:
        given = next((o for o in overrides if o.endswith(("=null", "="))), "this")
        return f"{given} is invalid: a group takes one of its choices; {command(name)} --help lists them"
    return " ".join(line for line in lines if not line.startswith("See http"))
