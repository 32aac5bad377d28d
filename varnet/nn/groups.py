"""Parameters in groups for Adam: log alpha with a rate and a memory of its own.

Its gradient spans many orders of magnitude, and shrinks like 1/alpha while the second moment of Adam remembers the
larger ones for 1/(1 - beta2) steps: with the usual beta2 a short run does not move it.
"""

from typing import Any

from torch import nn

from varnet.base.checks import number


def parameter_groups(
    model: nn.Module,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    log_alpha_lr: float | None = None,
    log_alpha_beta2: float = 0.9,
) -> list[dict[str, Any]]:
    """Groups for torch.optim.Adam: log alpha in one, everything else that is learned in the other.

    optimizer = torch.optim.Adam(varnet.parameter_groups(model, lr=1e-3))

    log_alpha_lr   None: 20 times lr
    """
    number(0, above=True)("lr", lr)
    rate = 20 * lr if log_alpha_lr is None else number(0, above=True)("log_alpha_lr", log_alpha_lr)
    betas = {"beta1": beta1, "beta2": beta2, "log_alpha_beta2": log_alpha_beta2}
    for key, value in betas.items():
        number(0, 1, below=True)(key, value)
    learned = [(name.rpartition(".")[2], p) for name, p in model.named_parameters() if p.requires_grad]
    alphas = [p for leaf, p in learned if leaf == "log_alpha"]
    others = [p for leaf, p in learned if leaf != "log_alpha"]
    groups = [
        {"params": others, "lr": lr, "betas": (beta1, beta2)},
        {"params": alphas, "lr": rate, "betas": (beta1, log_alpha_beta2)},
    ]
    return [group for group in groups if group["params"]]
