"""Whether a checkpoint is one of this run: compared with what there is, before anything is taken from it.

torch takes over most of what a state_dict says: a fused optimizer would run beyond the end of a moment that is smaller
than its parameter, a text would become the number of steps.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from varnet.base.checks import FINITE, SWITCH, Check, number, whole
from varnet.data import Loader
from varnet.errors import CheckpointError, ConfigError

GROUP = Check(lambda v: isinstance(v, dict), "a group")
LIST = Check(lambda v: isinstance(v, list) and len(v) > 0, "a list")
TEXT = Check(lambda v: isinstance(v, Tensor) and v.dtype == torch.uint8 and v.dim() == 1, "bytes")
COMPLETED = {  # options of torch's optimizers that they complete where an earlier version had not got them
    "amsgrad", "maximize", "foreach", "capturable", "differentiable", "decoupled_weight_decay",
}  # fmt: skip


def check(state: dict, model: nn.Module, optimizer, loader: Loader, epochs: int) -> None:
    """A CheckpointError says which part is not of a run of this network, optimizer, data and length."""
    try:
        check_weights(state["model"], model)
        check_optimizer(state["optimizer"], optimizer)
        _check_progress(state, loader, epochs)
        GROUP("scaler", state["scaler"])
        SWITCH("channels_last", state.get("channels_last", False))
        if "history" in state:
            TEXT("history", state["history"])
        for own in LIST("ranks", state.get("ranks") or [state]):  # [state]: before there were ranks
            _check_rank(GROUP("ranks", own))
    except KeyError as error:
        raise CheckpointError(f"it has no {error.args[0]}") from error
    except ConfigError as error:  # of the checks; the value, which may be anything, is not shown
        raise CheckpointError(f"its {error.key} {error.text}") from error


def check_weights(weights: dict, model: nn.Module) -> None:
    own = model.state_dict()
    if weights.keys() != own.keys():
        name = min(weights.keys() ^ own.keys())
        raise CheckpointError(f"its model has {'no' if name in own else 'a'} {name}")
    for name, tensor in own.items():
        _like(f"model.{name}", weights[name], tensor)


def check_optimizer(state: object, optimizer) -> None:
    """Moments have the shapes of their parameters, options the types that they have here."""
    together = getattr(optimizer, "optimizers", None)
    if together is not None:
        parts = LIST("optimizer", GROUP("optimizer", state)["together"])
        if len(parts) != len(together):
            raise CheckpointError(f"its optimizer has {len(parts)} parts for {len(together)}")
        for part, own in zip(parts, together, strict=True):
            check_optimizer(part, own)
        return
    groups = LIST("optimizer.param_groups", GROUP("optimizer", state)["param_groups"])
    if len(groups) != len(optimizer.param_groups):
        raise CheckpointError(f"its optimizer has {len(groups)} groups for {len(optimizer.param_groups)}")
    moments = GROUP("optimizer.state", state["state"])
    for group, own in zip(groups, optimizer.param_groups, strict=True):
        for name in own.keys() - {"params"} - (COMPLETED - GROUP("optimizer.param_groups", group).keys()):
            _same_kind(f"optimizer.{name}", group[name], own[name])
        places = LIST("optimizer.params", group["params"])
        if len(places) != len(own["params"]):
            raise CheckpointError(f"its optimizer has {len(places)} parameters for {len(own['params'])}")
        for place, parameter in zip(places, own["params"], strict=True):
            of_it = GROUP("optimizer.state", moments.get(whole()("optimizer.params", place), {}))
            _check_moments(of_it, parameter, "betas" in own)


def _check_moments(moments: dict, parameter: Tensor, adam: bool) -> None:
    """Adam's are all there from its first step on."""
    if adam and moments and not {"step", "exp_avg", "exp_avg_sq"} <= moments.keys():
        raise CheckpointError("its optimizer.state has not every moment of Adam")
    for name, value in moments.items():
        if name != "step" and (adam or value is not None):
            _like(f"optimizer.{name}", value, parameter)
    step = moments.get("step", 0)
    if not (step.numel() == 1 if isinstance(step, Tensor) else isinstance(step, int | float)):
        raise CheckpointError("its optimizer.step is no number")


def _check_progress(state: dict, loader: Loader, epochs: int) -> None:
    """How far it is. Another number of processes may have had a batch an epoch more or less."""
    saved, batches = GROUP("loader", state["loader"]), len(loader)
    _like("loader.generator", saved["generator"], loader.generator.get_state())
    whole()("loader.epoch", saved.get("epoch", 0))
    number(0)("seconds", state["seconds"])
    epoch, step, done = (whole()(key, value) for key, value in (
        ("epoch", state["epoch"]), ("step", state["step"]), ("loader.done", saved["done"])
    ))  # fmt: skip
    if (saved["size"], saved["batch_size"]) != (len(loader.y), loader.batch_size):
        return  # of which the loader has a sentence of its own
    fits = epoch <= epochs and done <= batches + 1 and epoch * (batches - 1) <= step <= (epoch + 1) * (batches + 1)
    if not fits:
        raise CheckpointError(
            f"its epoch {epoch}, step {step} and batch {done} are not of {epochs} epochs of {batches} batches"
        )


def _check_rank(own: dict) -> None:
    _like("rng.cpu", GROUP("rng", own["rng"])["cpu"], torch.get_rng_state())
    for name, states in _others(own["rng"]):
        if not all(isinstance(one, Tensor) and one.dtype == torch.uint8 for one in states):
            raise CheckpointError(f"its rng.{name} is no state of a generator")
    _like("sums", own["sums"], torch.zeros(3))


def _others(states: dict) -> Iterator[tuple[str, list]]:
    for name in states.keys() - {"cpu"}:
        value = states[name]
        yield name, value if isinstance(value, list) else [value]


def _like(name: str, value: object, own: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise CheckpointError(f"its {name} is no tensor")
    if (value.shape, value.dtype) != (own.shape, own.dtype):
        raise CheckpointError(f"its {name} has {_told(value)}, not {_told(own)}")


def _told(tensor: Tensor) -> str:
    return f"shape {tuple(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"


def _same_kind(name: str, value: object, own: object) -> None:
    """A number for a number, as many for several; else the same: such as whether a sum of moments is taken."""
    if isinstance(own, tuple | list):
        fits = type(value) is type(own) and len(value) == len(own) and all(map(FINITE.fits, value))
    else:
        fits = FINITE.fits(value) if FINITE.fits(own) else type(value) is type(own) and value == own
    if not fits:
        raise CheckpointError(f"its {name} is not one of such a run")
