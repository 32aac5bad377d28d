"""LeNet-300-100: dense1 300, dense2 100, dense3 (sparse variational dropout)."""

from varnet.nn.networks.builder import Builder
from varnet.nn.networks.registry import network


@network()
def lenet300(b: Builder, classes: int) -> None:
    b.all_dense((300, 100), classes)
