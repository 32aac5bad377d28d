"""Figure 3: the phase transition of the VGG-like network on CIFAR-10 under the log-uniform prior."""

from varnet.paper import by_alpha
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, figure
from varnet.paper.transition import of_priors

CONTROL = ("loguniform", "loguniform_beta1", "loguniform_lr1", "loguniform_control")  # of experiments phase_...


@figure(
    "fig3", "Figure 3: phase transition, VGG-like on CIFAR-10, log-uniform prior", "phase_loguniform", from_history=True
)
def draw(library: Library) -> Drawn:
    return of_priors(library, "loguniform")


@figure("fig3_alpha", "Figure 3 against log alpha instead of epochs", "phase_loguniform", from_history=True)
def draw_by_alpha(library: Library) -> Drawn:
    return by_alpha.of_priors(library, "loguniform")


@figure(
    "fig3_control", "Figure 3 with beta = 1, with no rate of its own for log alpha, and with both",
    *(f"phase_{name}" for name in CONTROL), from_history=True,
)  # fmt: skip
def draw_control(library: Library) -> Drawn:
    return of_priors(library, *CONTROL)


@figure(
    "fig3_control_alpha", "The same against log alpha instead of epochs", *(f"phase_{name}" for name in CONTROL),
    from_history=True,
)  # fmt: skip
def draw_control_by_alpha(library: Library) -> Drawn:
    return by_alpha.of_priors(library, *CONTROL)
