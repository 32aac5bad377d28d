"""Figure 8: the phase transition of the VGG-like network on CIFAR-10 under each prior, by epoch and by log alpha."""

from varnet.paper import by_alpha
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, figure
from varnet.paper.transition import of_priors

PRIORS = ("loguniform", "student", "ard")


@figure(
    "fig8", "Figure 8: phase transition for each prior, VGG-like on CIFAR-10", *(f"phase_{prior}" for prior in PRIORS),
    from_history=True,
)  # fmt: skip
def draw(library: Library) -> Drawn:
    return of_priors(library, *PRIORS)


@figure(
    "fig8_alpha", "Figure 8 against log alpha instead of epochs", *(f"phase_{prior}" for prior in PRIORS),
    from_history=True,
)  # fmt: skip
def draw_by_alpha(library: Library) -> Drawn:
    return by_alpha.of_priors(library, *PRIORS)
