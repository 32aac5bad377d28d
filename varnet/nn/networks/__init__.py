"""Networks of the paper: layers named conv1.., dense1.., any of which may be variational (sections 3 and 6).

Each file holds one network, written as a plain one whose chosen layers `convert.variational` gives random weights. A
file that is put here is known by its name: `network` registers the function that it decorates.
"""

import importlib
import pkgutil

from varnet.nn.networks.builder import ACTIVATIONS, Builder
from varnet.nn.networks.making import build
from varnet.nn.networks.registry import NETWORKS, Network, network

for _found in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_found.name}")

__all__ = ["ACTIVATIONS", "NETWORKS", "Builder", "Network", "build", "network"]
