"""key=value from a command line, and what Hydra says of it, in one sentence."""

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from omegaconf import DictConfig, OmegaConf

from varnet.base.checks import TEXT, Check, list_of, or_null
from varnet.base.invocation import command
from varnet.errors import ConfigError
from varnet.runs import nearest
from varnet.runs.composing import CONFIGS, RL_CONFIGS
from varnet.runs.folder import TARGETS, Targets
from varnet.runs.meaning import owners
from varnet.runs.schema import check_each

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
        put(defaults, override)
    check_each(defaults, checks)
    return defaults


def put(cfg: DictConfig, override: str) -> None:
    """Set key=value, whatever was there; an interpolation is looked up when its value is asked for."""
    key = override.partition("=")[0]
    value = OmegaConf.to_container(from_override(override), resolve=False)
    for part in key.split("."):
        value = value[part]
    OmegaConf.update(cfg, key, value, merge=False)


def from_override(override: str) -> DictConfig:
    """key=value as a configuration."""
    try:
        return OmegaConf.from_dotlist([override])
    except Exception as error:  # of the YAML in it: besides YAMLError what its dates and numbers raise
        raise ConfigError(f"{override} cannot be read: close its brackets and quotation marks") from error


@contextlib.contextmanager
def said(overrides: Sequence[str], name: str = "train") -> Iterator[None]:
    """Around what Hydra makes of a command line: whatever it raises is about the overrides, and one sentence."""
    if gone := [o for o in overrides if o.startswith("~")]:
        raise ConfigError(f"{gone[0]} is invalid: no key can be left out; use {gone[0][1:].partition('=')[0]}=null")
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:  # besides Hydra's own a TypeError for a list, a RecursionError for ${.}, ...
        raise ConfigError(explain(error, overrides, name)) from error


def explain(error: Exception, overrides: Sequence[str], name: str = "train") -> str:
    """A message of Hydra in one sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    choice = re.search(r"Could not find '([^']*)/([^'/]*)'", lines[0])
    key = re.search(r"Could not override '([^']*)'", lines[0])
    if choice and (options := _available(lines)):
        close = get_close_matches(choice[2], options, 1)
        hint = f"; did you mean {choice[1]}={close[0]}?" if close else ""
        return f"{choice[1]}={choice[2]} is not known: choose one of {', '.join(options)}{hint}"
    if key:
        named = [o for o in overrides if o.lstrip("+~").startswith(key[1])]
        given = next((o for o in reversed(named) if o.lstrip("+~").partition("=")[0] == key[1]), (named or [key[1]])[0])
        if key[1].startswith("likelihood.") and "likelihood" not in {o.partition("=")[0] for o in overrides}:
            return f"{given}: only a likelihood has the key {key[1]}; give that, too, e.g. likelihood=gaussian"
        if whose := owners(key[1]):
            has = "has" if len(whose) == 1 else "have"
            return f"{given}: only {' and '.join(whose)} {has} the key {key[1]}; give that, too, or leave it out"
        return f"{given}: there is no key {key[1]}; {command(name)} --help lists the keys{nearest.hint(key[1], name)}"
    if override := getattr(error, "override", None):  # that Hydra's grammar cannot read
        reason = " ".join(line for line in lines if not line.startswith("See http"))
        return f"{override} cannot be read ({reason}): put its value in quotation marks, key='value'"
    foreign = not str(error) or type(error).__module__.partition(".")[0] not in ("hydra", "omegaconf")
    if (foreign or "Config group override must be" in lines[0]) and (odd := [o for o in overrides if _no_choice(o)]):
        return f"{odd[0]} is invalid: a group takes one of its choices; {command(name)} --help lists them"
    if foreign:
        return f"{' '.join(overrides)} cannot be read ({type(error).__name__}: {' '.join(lines)}): write key=value"
    return " ".join(line for line in lines if not line.startswith("See http"))


def _no_choice(override: str) -> bool:
    """Whether it gives a group something else than a word: nothing, a list, a dictionary, an interpolation."""
    key, _, value = override.lstrip("+~").partition("=")
    folders = [path.relative_to(root) for root in (CONFIGS, RL_CONFIGS) for path in root.rglob("*") if path.is_dir()]
    word = value != "null" and re.fullmatch(r"[\w./-]+", value)
    return not word and key.partition("@")[0] in {folder.as_posix() for folder in folders}


def _available(lines: list[str]) -> list[str]:
    """The choices that Hydra lists."""
    begin = next((i for i, line in enumerate(lines) if "Available options" in line), len(lines))
    return list(itertools.takewhile(lambda line: not line.startswith("Config search path"), lines[begin + 1 :]))
