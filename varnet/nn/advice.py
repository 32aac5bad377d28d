"""Configurations that are known to fail, told before they are trained, each with its remedy."""

from torch import nn

from varnet.base.checks import number, whole
from varnet.nn.layers import Variational, layers_of

GROWTH = 0.0005  # log alpha per step that Adam allows once alpha is above 1, with beta2=0.999 (measured)
ZERO_MEAN_FROM = 5.0  # log alpha from which a layer does without its means


class Advice(list[str]):
    """Sentences; prints one a line."""

    def __str__(self) -> str:
        return "\n".join(self) or "nothing is known to fail"


def advice(
    model: nn.Module, steps: int | None = None, lr: float = 1e-3, log_alpha_lr: float | None = None,
    log_alpha_beta2: float = 0.999,
) -> Advice:  # fmt: skip
    """Tell what is known to fail in a model, and in a run of so many steps of Adam, with what to do about it.

    steps           of the optimizer; None: nothing is said of a run
    lr              of Adam
    log_alpha_lr    of log alpha, None: lr; log_alpha_beta2 is of log alpha, too
    """
    number(0, above=True)("lr", lr)
    found = layers_of(model)
    told = Advice(_of_layers(model, found))
    if steps is not None:
        rate = lr if log_alpha_lr is None else number(0, above=True)("log_alpha_lr", log_alpha_lr)
        told += _of_run(found, whole(1)("steps", steps), rate, number(0, 1, below=True)("beta2", log_alpha_beta2))
    return told


def _of_layers(model: nn.Module, found: dict[str, Variational]) -> list[str]:
    if not found:
        return ["no layer is random: use varnet.variational(model)"]
    told = []
    weighted = [name for name, m in model.named_modules() if name in found or _has_weights(m)]
    last = weighted[-1]
    if last in found and found[last].param.zero_mean and len(weighted) > 1:
        hidden = next((name for name in reversed(weighted[:-1]) if name in found), weighted[-2])
        told.append(
            f"the last layer, {last}, has weights of mean zero: the signs of the outputs are random and training stays "
            f"at chance; choose a hidden layer for param=zero_mean (layers={hidden!r}), and give the last one a mean"
        )
    if all(layer.param.deterministic for layer in found.values()):
        told.append("every layer has param=deterministic, a point estimate: use param=layer for noise")
    fixed = [name for name, layer in found.items() if not any(p.requires_grad for p in layer.parameters())]
    if fixed:
        told.append(f"nothing is learned of {', '.join(fixed)}: use requires_grad_(True), if that is not meant so")
    return told


def _has_weights(module: nn.Module) -> bool:
    return any("weight" in key and p is not None and p.dim() > 1 for key, p in module._parameters.items())


def _of_run(found: dict[str, Variational], steps: int, rate: float, beta2: float) -> list[str]:
    """Of log alpha that is learned itself: Adam moves a number by its rate a step at most."""
    told = []
    for name, layer in found.items():
        log_alpha = layer._parameters.get("log_alpha")
        if log_alpha is None or not log_alpha.requires_grad:
            continue
        start = float(log_alpha.detach().max())
        end = _reached(start, steps, rate, beta2)
        if end < ZERO_MEAN_FROM:
            told.append(
                f"log alpha of {name or 'the layer'} starts at {start:.3g} and cannot pass {end:.2g} in {steps} steps, "
                f"below the {ZERO_MEAN_FROM:g} from which a layer does without means: use more steps, start higher, or "
                "torch.optim.Adam(varnet.parameter_groups(model, lr))"
            )
    return told


def _reached(start: float, steps: int, rate: float, beta2: float) -> float:
    """The largest log alpha after so many steps: at the full rate up to 0, then as the memory of Adam lets it."""
    slow = min(rate, GROWTH * (1 - beta2) / 0.001)
    left = steps - max(0.0, -start) / rate
    return start + rate * steps if left <= 0 else max(start, 0.0) + slow * left
