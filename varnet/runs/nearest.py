"""The key that was meant: schedule.epoch, or epochs alone -> schedule.epochs."""

from difflib import get_close_matches

from omegaconf import OmegaConf

from varnet.base.nested import flat
from varnet.runs.composing import composed
from varnet.runs.schema import groups


def hint(key: str, name: str = "train") -> str:
    """The end of a sentence about a key that is not known; nothing where none is like it."""
    keys = known(name)
    inside = [full for full in keys if full.endswith(f".{key}")]  # its group left out
    close = inside if len(inside) == 1 else get_close_matches(key, keys, 1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""


def known(name: str) -> set[str]:
    """Every key of a configuration, those of its groups with the group before them."""
    values = OmegaConf.to_container(composed(name=name), resolve=False)
    assert isinstance(values, dict)
    found = {*values, *flat(values)}
    return found | {f"{group}.{key}" for group, keys in groups().items() for key in keys} if name == "train" else found
