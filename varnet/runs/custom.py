"""A network of the user's own: model=custom model.target=pkg.mod:build model.options={...}

The function takes (in_shape, classes, **options) and returns a plain nn.Module. It is tried on two training objects
before anything is written; then its chosen layers become variational as varnet.variational makes them.
"""

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from varnet.base.importing import imported
from varnet.errors import ConfigError, one_line
from varnet.nn.convert import variational
from varnet.nn.layers import layers_of

CUSTOM = "custom"


def build(
    target: str,
    x: Tensor,
    classes: int,
    *,
    options: dict | None = None,
    dropout: bool = False,
    layers: str | Iterable[str] | None = None,
    param: str = "layer",
    prior: str = "loguniform",
    **random,
) -> nn.Module:
    """The network of the function that `target` names, for inputs such as x.

    dropout   whether it has to have nn.Dropout in it: the noise of param=dropout
    layers    which layers are variational; None: all, or none of a deterministic network
    random    options of varnet.variational
    """
    make = imported(target, "target")
    model = _called(make, target, (tuple(x.shape[1:]), classes), options or {})
    _check_plain(model, target)
    _check_outputs(make, model, target, x, classes)
    if dropout and not any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in model.modules()):
        raise ConfigError(
            "makes a network without nn.Dropout, the noise of param=dropout: add it, or use param=deterministic",
            "target", target,
        )  # fmt: skip
    model = model if len(model._modules) else nn.Sequential(model)  # a layer alone has no name
    layers = layers or ("none" if param == "deterministic" else "all")
    try:
        return variational(model, layers, param, prior, **random)
    except ValueError as error:
        if getattr(error, "key", None) is not None:
            raise
        raise ConfigError(  # of the layers that there are
            f"makes a network that cannot be variational ({error}): change it, or use param=deterministic",
            "target", target,
        ) from error  # fmt: skip


def _called(make: Callable, target: str, arguments: tuple, options: dict) -> nn.Module:
    try:
        inspect.signature(make).bind(*arguments, **options)
    except TypeError as error:
        raise ConfigError(
            f"does not fit {target}(in_shape, classes, **options): {error}; give it what it takes", "options", options
        ) from error
    except ValueError:  # a callable that does not tell
        pass
    try:
        model = make(*arguments, **options)
    except Exception as error:
        raise ConfigError(
            f"raised {_told(error, make)}: mend it, or change model.options={options}", "target", target
        ) from error
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"returns {type(model).__name__}, which is no nn.Module: return the network", "target", target
        )
    return model


def _check_plain(model: nn.Module, target: str) -> None:
    if layers_of(model):
        raise ConfigError(
            "returns a network whose layers are variational already: make a new one of plain layers at every call, and "
            "choose with param.layers", "target", target,
        )  # fmt: skip
    if not any(True for _ in model.parameters()):
        raise ConfigError("returns a network that has nothing to learn: give it layers with weights", "target", target)


def _check_outputs(make: Callable, model: nn.Module, target: str, x: Tensor, classes: int) -> None:
    """In evaluation and in training; what training changes, averages and the state of noise, is put back."""
    training = model.training
    for flag in (False, True):
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                model.train(flag)
                before = {name: buffer.clone() for name, buffer in model.named_buffers()}
                out = model(x)
                for name, buffer in model.named_buffers():
                    if name in before:
                        buffer.copy_(before[name])
        except Exception as error:
            raise ConfigError(
                f"makes a network that fails on inputs of shape {tuple(x.shape)}, {_told(error, make)}: build it for "
                "in_shape, its first argument", "target", target,
            ) from error  # fmt: skip
        wanted = (len(x), classes)
        if not (isinstance(out, Tensor) and out.is_floating_point() and tuple(out.shape) == wanted):
            found = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else f"type {type(out).__name__}"
            raise ConfigError(
                f"makes a network whose output for inputs of shape {tuple(x.shape)} has {found}: return logits of "
                f"shape {wanted}, one for each class (or number that the likelihood takes)", "target", target,
            )  # fmt: skip
    model.train(training)


def _told(error: Exception, make: Callable) -> str:
    """What was raised, and the line of the user's file that it came from."""
    text = one_line(f"{type(error).__name__}: {error}")[:300]
    file = getattr(sys.modules.get(getattr(make, "__module__", None)), "__file__", None)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{text} ({Path(file).name}, line {own[-1].lineno})" if own else text
