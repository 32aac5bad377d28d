"""Search for what is random in a model, by running its graph: the operations that move a random generator.

A graph that would not do what the model does is refused here, with the reason: `RunWhole`.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn

from varnet.evaluation.untouched import Generators, version
from varnet.nn.layers import Held, Variational
from varnet.nn.layers.host import Host

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class RunWhole(Exception):
    """Refusal: a model has to be run whole for every sample; the message says why."""


def traced(model: nn.Module, x: Tensor) -> fx.GraphModule:
    """Trace a model into a graph from one input to one output."""
    _refuse_hooks(model)
    generators = Generators(x)
    try:
        module = fx.GraphModule(model, _Tracer().trace(model, _left_out(model)))
    except RunWhole:
        raise
    except Exception as error:  # control flow that depends on values, and whatever else cannot be traced
        raise RunWhole(f"torch.fx cannot trace it ({named(error)})") from error
    if generators.moved():  # the noise would be a constant of the graph
        raise RunWhole("it draws noise in a shape of its own, which a trace makes a constant")
    (output,) = module.graph.find_nodes(op="output")
    if not isinstance(output.args[0], fx.Node):
        raise RunWhole("it has several outputs")
    return module


def _left_out(model: nn.Module) -> dict[str, object] | None:
    """Defaults of all arguments but the first, which is all that is given; a trace would take them for tensors."""
    others = list(inspect.signature(model.forward).parameters.values())[1:]
    return {one.name: one.default for one in others if one.default is not one.empty} or None


def named(error: Exception) -> str:
    """Shorten an error to its kind and its first line."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


def _refuse_hooks(model: nn.Module) -> None:
    """Refuse hooks: on what is traced or replaced they would not be called, on the rest less often."""
    if any(getattr(nn.modules.module, f"_global{kind}", None) for kind in HOOKS):
        raise RunWhole("there are hooks on all modules")
    for name, module in model.named_modules():
        if any(getattr(module, kind, None) for kind in HOOKS):
            raise RunWhole(f"{name or 'the model'} has hooks, which are to be called for every sample")


class _Tracer(fx.Tracer):
    """Tracer that keeps variational layers whole, and refuses what a graph has no words for."""

    def __init__(self) -> None:
        super().__init__()
        self.gradients = torch.is_grad_enabled()

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return isinstance(module, Held | Host) or super().is_leaf_module(module, name)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        if self.gradients and not torch.is_grad_enabled():  # as inside of a Function's forward
            raise RunWhole("a part of it has no gradient, or one of its own (no_grad, autograd.Function)")
        return super().create_node(*args, **kwargs)

    def getattr(self, attr: str, attr_val: object, parameter_proxy_cache: dict[str, fx.Proxy]) -> object:
        if attr == "held_noise":
            raise RunWhole("it reads the weights of a variational layer instead of calling it")
        return super().getattr(attr, attr_val, parameter_proxy_cache)


class Probe(fx.Interpreter):
    """Run of a graph that notes which nodes are random, and which others their noise reaches."""

    def __init__(self, module: fx.GraphModule, x: Tensor):
        super().__init__(module)
        self.random: dict[fx.Node, nn.Module | None] = {}
        self.late: set[fx.Node] = set()  # what noise reaches, the random nodes included
        self.shapes: dict[fx.Node, torch.Size | None] = {}  # of the outputs of random nodes
        self.read: list[tuple[fx.Node, Tensor, int]] = []  # by the late nodes, of the others, with its version
        self.x = x
        before = version(x)
        self.run(x)
        if version(x) != before:
            raise RunWhole("it changes its input in place")
        self._refuse_spoilt()

    def run_node(self, node: fx.Node) -> object:
        early = [self.env[parent] for parent in node.all_input_nodes if parent not in self.late]
        read = [(node, tensor, version(tensor)) for value in early for tensor in _tensors(value)]
        generators, module = Generators(self.x), module_of(self.module, node)
        out = super().run_node(node)
        # A held draw of the weights moves no generator, but `resample` may come between two samples.
        if holds_weights(module) or generators.moved():
            self.random[node] = module
            self.shapes[node] = out.shape if isinstance(out, Tensor) else None
        if node in self.random or not self.late.isdisjoint(node.all_input_nodes):
            alone = node in self.random and samples_locally(module) and self.late.isdisjoint(node.all_input_nodes)
            self.late.add(node)
            self.read += [] if alone else read  # the moments of such a layer are computed in its place in the order
        return out

    def _refuse_spoilt(self) -> None:
        """Refuse a change of what every sample reads, by a sample or by what comes before all of them."""
        for node, tensor, before in self.read:
            if version(tensor) != before:
                raise RunWhole(f"a value that all samples share, read by {node.name}, is changed in place")


def holds_weights(module: nn.Module | None) -> bool:
    """Tell whether a draw is held in a module: a variational layer, dropout, or one with such a layer inside."""
    parts = [] if module is None else module.modules()
    layers = [part for part in parts if isinstance(part, Held) and part.holds]
    return any(not isinstance(layer, Variational) or not layer.param.deterministic for layer in layers)


def samples_locally(module: object) -> bool:
    """Tell whether a module is a variational layer that draws its output from its moments."""
    return isinstance(module, Variational) and module.samples_locally


def module_of(module: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    """Find the module that a node calls; None for another operation."""
    return module.get_submodule(node.target) if node.op == "call_module" else None


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)
