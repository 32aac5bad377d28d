"""The toy problem of section 3.2: dense1 .. dense4 of 100, dense5 of two variance neurons, dense6 of 100, dense7.

Differs from section 3.2, which has no dense6: without it two classes stay one.
"""

from varnet.nn.networks.builder import Builder
from varnet.nn.networks.registry import network


@network(layers=("dense5",))
def toy(b: Builder, classes: int) -> None:
    b.all_dense((100, 100, 100, 100, 2, 100), classes)
