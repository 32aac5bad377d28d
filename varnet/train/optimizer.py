"""Steps of gradient descent for a variational network: means, noise and log alpha in groups of their own.

The loss is N times a mean. Adam does not mind; SGD's rate is that of the mean, so that it reads as elsewhere.
"""

from collections.abc import Iterable

import torch
from omegaconf import DictConfig
from torch import nn

OPTIMIZERS = ("adam", "sgd")
BETA1, BETA2 = 0.9, 0.999


def make_optimizer(model: nn.Module, cfg: DictConfig, size: int) -> "torch.optim.Optimizer | Together":
    """Adam as published, or what the schedule says.

    size: training objects. schedule.weight_decay shrinks the weights of layers without noise by lr times itself a step
    (of SGD through its momentum, as is usual): the objective is untouched.
    """
    schedule = cfg.schedule
    plain, decayed, alphas = _parts(model, bool(schedule.get("weight_decay")))
    beta1 = BETA1 if schedule.get("beta1") is None else schedule.beta1
    of_alpha = {"params": alphas, "lr_mult": schedule.log_alpha.lr_mult, "betas": (beta1, schedule.log_alpha.beta2)}
    both = ((plain, 0.0), (decayed, schedule.get("weight_decay")))
    groups = [{"params": params, "lr_mult": 1.0, "weight_decay": decay} for params, decay in both if params]
    if schedule.get("optimizer") != "sgd":
        kind = torch.optim.AdamW if decayed else torch.optim.Adam
        groups = [group | {"betas": (beta1, BETA2)} for group in groups] + ([of_alpha] if alphas else [])
        return kind(groups, lr=schedule.lr, weight_decay=0.0, fused=True)
    momentum = 0.9 if schedule.get("momentum") is None else schedule.momentum
    for group in groups:  # lr / size * (size * decay) = lr * decay
        group |= {"lr_mult": 1.0 / size, "weight_decay": size * group["weight_decay"]}
    sgd = torch.optim.SGD(groups, lr=schedule.lr, momentum=momentum, nesterov=momentum > 0, fused=True)
    return Together([sgd, torch.optim.Adam([of_alpha], lr=schedule.lr, fused=True)]) if alphas else sgd


def _parts(model: nn.Module, decay: bool) -> tuple[list, list, list]:
    """Parameters without decay, with it, and log alphas."""
    plain, decayed, alphas = [], [], []
    for name, parameter in model.named_parameters():
        leaf = name.rpartition(".")[2]
        heavy = decay and leaf == "weight" and parameter.dim() > 1
        (alphas if leaf == "log_alpha" else decayed if heavy else plain).append(parameter)
    return plain, decayed, alphas


class Together:
    """Several optimizers as one, each with its own parameters: SGD for weights, whose noise it averages, Adam for log
    alpha, whose gradient spans many orders of magnitude."""

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]):
        self.optimizers = list(optimizers)
        self.grad_scale = self.found_inf = None

    @property
    def param_groups(self) -> list[dict]:
        return [group for one in self.optimizers for group in one.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for one in self.optimizers:
            one.zero_grad(set_to_none)

    def step(self) -> None:
        for one in self.optimizers:
            one.grad_scale, one.found_inf = self.grad_scale, self.found_inf
            one.step()

    def state_dict(self) -> dict:
        return {"together": [one.state_dict() for one in self.optimizers]}

    def load_state_dict(self, state: dict) -> None:
        for one, own in zip(self.optimizers, state["together"], strict=True):
            one.load_state_dict(own)
