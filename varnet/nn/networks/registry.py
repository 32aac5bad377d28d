"""Networks by name: a function that builds one, with the paper's choices for it."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

Make = Callable[..., None]  # (builder, number of classes, options of its own)


@dataclass(frozen=True)
class Network:
    """A network and the paper's choices for it."""

    make: Make
    layers: str | tuple[str, ...] = "all"  # which are variational
    bias: bool = True
    batch_norm: bool | tuple[str, ...] = False
    dropout: bool = False
    log_alpha: float = -5.0  # at the start
    image: int = 0  # smallest side of an image; 0: any input, flattened

    @property
    def options(self) -> tuple[str, ...]:
        """Options that only this network has."""
        return tuple(inspect.signature(self.make).parameters)[2:]


NETWORKS: dict[str, Network] = {}  # filled by `network`


def network(**choices) -> Callable[[Make], Make]:
    """Register the decorated function (Builder, classes) under its own name; the choices are those of Network.

    What else the function takes are options of its network, which its YAML in configs/model/ lists too.
    """

    def register(make: Make) -> Make:
        if make.__name__ in NETWORKS:
            raise ValueError(f"there are two networks {make.__name__!r}: rename one of them")
        NETWORKS[make.__name__] = Network(make, **choices)
        return make

    return register


def own_options() -> dict[str, str]:
    """Option -> the network that has it."""
    return {option: name for name, network in NETWORKS.items() for option in network.options}
