"""The Ray of a sweep: one that is started for it asks for a token, one that was there keeps its own authentication.

Ray listens on every interface of the machine. Without a token whoever reaches its ports runs code as the user.
"""

import contextlib
import importlib.util
import os
import secrets
from collections.abc import Iterator

from varnet.errors import ConfigError

OWN = "local"  # the address by which Ray starts a cluster, whichever are running
ADDRESS = "hydra.launcher.ray.init.address"


def resolved(address: str | None) -> str:
    """The address that a sweep uses. RAY_ADDRESS counts as it does for Ray; null is a cluster of the sweep's own."""
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS") or address
    return address or OWN


@contextlib.contextmanager
def secured(address: str | None) -> Iterator[None]:
    """Set what Ray reads when it is imported and started. The token is in the environment of the sweep and of its
    processes, which nobody else may read, and in no file."""
    if address != OWN:
        yield
        return
    token = os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)
    with _environment(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token):
        if importlib.util.find_spec("ray._private.authentication") is None:
            raise ConfigError("is too old to ask for a token: pip install --upgrade ray", "hydra/launcher", "ray")
        yield


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
