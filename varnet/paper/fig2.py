"""Figure 2: the KL divergence of the three priors as a function of alpha."""

import numpy as np
import torch

from varnet.base import plots
from varnet.nn.priors import ard, loguniform
from varnet.paper.library import Library
from varnet.paper.targets import Drawn, Part, figure


@figure("fig2", "Figure 2: KL divergence of the three priors", parts=[Part("the three priors", 0)])
def draw(_library: Library) -> Drawn:
    """Draw KL(q || p) of the three priors against log alpha, mu = 1; Student's t for several nu."""
    log_alpha = torch.linspace(-8, 8, 161, dtype=torch.double)
    lines = {
        "log-uniform": loguniform.exact(log_alpha),
        "log-uniform, approximation": loguniform.approx(log_alpha),
        "ARD": ard.kl(log_alpha),
    }
    for nu in (1e-16, 1e-2, 0.1, 1.0):
        lines[f"Student's t, nu = {nu:g}"] = student_kl(log_alpha, nu)
    chart = plots.curves(
        log_alpha.tolist(), {k: v.tolist() for k, v in lines.items()}, "log alpha", "KL", "KL divergence per weight"
    )
    for line in chart.axes[0].lines:
        line.set_marker("")
        line.set_linestyle("--" if "approx" in line.get_label() or "1e-16" in line.get_label() else "-")
    chart.axes[0].legend(frameon=False)
    at = {"-4": 40, "0": 80, "4": 120}
    return Drawn(chart, {name: {where: float(values[i]) for where, i in at.items()} for name, values in lines.items()})


def student_kl(log_alpha: torch.Tensor, nu: float, points: int = 200_001) -> torch.Tensor:
    """KL to Student's t up to its normaliser, mu = 1, by quadrature (eq. 10)."""
    eps = torch.linspace(-9, 9, points, dtype=torch.double)
    weight = (-0.5 * eps.square()).exp()
    weight /= weight.sum()
    sigma = (0.5 * log_alpha).exp()[:, None]
    inside = torch.stack([(weight * (nu + (1 + s * eps).square()).log()).sum() for s in sigma])
    constant = 0.5 * (np.euler_gamma + np.log(2))
    return -0.5 * log_alpha + 0.5 * (nu + 1) * inside + constant
