"""Dense layers alone, three of 1,000 unless `sizes` says otherwise."""

from collections.abc import Iterable

from varnet.base.checks import whole
from varnet.errors import ConfigError
from varnet.nn.networks.builder import Builder
from varnet.nn.networks.registry import network

UNITS = whole(1, 2**31 - 1)


@network()
def fc(b: Builder, classes: int, sizes: Iterable[int] = (1000, 1000, 1000)) -> None:
    b.all_dense(_checked(sizes), classes)


def _checked(sizes: Iterable[int]) -> tuple[int, ...]:
    found = tuple(sizes) if isinstance(sizes, Iterable) else (sizes,)
    if not found or not all(UNITS.fits(n) for n in found):
        raise ConfigError("is invalid: use whole numbers above 0, one for each hidden layer", "sizes", sizes)
    return found
