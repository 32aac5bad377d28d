"""What is random in a model, what is not, and why: a row for each module that has parameters of its own."""

from typing import NamedTuple

from torch import nn
from torch.nn.parameter import is_lazy

from varnet.nn.layers import Parted, RandomTensor, Variational
from varnet.nn.layers.host import Host
from varnet.nn.matching import why_not


class Row(NamedTuple):
    """One module."""

    name: str
    kind: str  # its class
    random: int  # how many weights have a distribution
    fixed: int  # how many numbers are point estimates
    weights: bool  # whether a tensor of the latter is a weight: by its name, and a matrix at least
    how: str  # of what is random: parameterization, prior, where the noise is drawn
    why: str  # of what is not


class Inventory(list[Row]):
    """Prints as a table."""

    def __str__(self) -> str:
        lines = [f"{'module':<32}{'kind':<24}{'random':>12}{'fixed':>12}  how, or why not"]
        for row in self:
            told = "; ".join(text for text in (row.how, row.why) if text)
            lines.append(f"{row.name or '(itself)':<32}{row.kind:<24}{row.random:>12,}{row.fixed:>12,}  {told}")
        random, fixed = sum(row.random for row in self), sum(row.fixed for row in self)
        return "\n".join([*lines, f"{'':<56}{random:>12,}{fixed:>12,}  of {random + fixed:,}"])

    @property
    def random(self) -> list[str]:
        """Names of the modules that have random weights."""
        return [row.name for row in self if row.random]

    @property
    def left(self) -> dict[str, str]:
        """Names of those that have none, and why."""
        return {row.name: row.why for row in self if not row.random}


def inventory(model: nn.Module) -> Inventory:
    """List the modules of a model that have parameters of their own. Tied weights count wherever they are used."""
    rows = Inventory()
    for name, module in model.named_modules():
        owns = any(p is not None for p in module._parameters.values())
        if isinstance(module, Host) or (owns and not isinstance(module, RandomTensor)):
            rows.append(_row(name, module))
    return rows


def _row(name: str, module: nn.Module) -> Row:
    random = {key: part for key, part in _posteriors(module).items() if not part.param.deterministic}
    count = sum(part.weight_shape.numel() for part in random.values())
    plain = _plain(module)
    fixed = sum(size for size, _ in plain.values())
    weights = any("weight" in key and dims > 1 for key, (_, dims) in plain.items())
    return Row(name, type(module).__name__, count, fixed, weights, _how(module, random), _why(module, random, plain))


def _posteriors(module: nn.Module) -> dict[str, Variational]:
    own = {"weight": module} if isinstance(module, Variational) else {}
    return own | (module.parts() if isinstance(module, Parted) else {})


def _plain(module: nn.Module) -> dict[str, tuple[int, int]]:
    """Name -> (numbers, dimensions) of tensors that have no distribution."""
    owned = (*module.of_param, *module.of_prior) if isinstance(module, Variational) else ()
    left = {k: p for k, p in module._parameters.items() if p is not None and k not in owned}
    found = {k: (0, 2) if is_lazy(p) else (p.numel(), p.dim()) for k, p in left.items()}
    points = {k: part.weight_shape for k, part in _posteriors(module).items() if part.param.deterministic}
    return found | {key: (shape.numel(), len(shape)) for key, shape in points.items()}


def _how(module: nn.Module, random: dict[str, Variational]) -> str:
    if not random:
        return ""
    one = next(iter(random.values()))
    local = one.param.noise == "gaussian" and getattr(module, "sampling", "local") == "local"
    drawn = "noise at the output" if local else "one draw a call"
    tied = ", tied" if any(part.shared for part in random.values()) else ""
    return f"param={one.param.name}, prior={one.prior.name}, {drawn}{tied}"


def _why(module: nn.Module, random: dict[str, Variational], plain: dict[str, tuple[int, int]]) -> str:
    if random:
        return f"{', '.join(plain)} fixed" if plain else ""
    if isinstance(module, Variational | Host):
        return "param=deterministic: point estimates"
    if not any("weight" in key for key in plain):
        return "parameters of its own that are no weights"
    return why_not(module)
