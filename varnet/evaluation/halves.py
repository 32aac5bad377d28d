"""A graph cut in two: what no noise reaches, and the rest, to be run for every sample.

Values that the second half needs of the first are handed over. A variational layer before which there is no noise is
cut itself: its moments belong to the first half, its draw to the second.
"""

import operator
from typing import Any

from torch import Tensor, fx, nn

from varnet.evaluation.probing import Probe, module_of, samples_locally
from varnet.evaluation.quick import quick
from varnet.nn import lrt_fast as local
from varnet.nn.layers import Variational


def halves(module: fx.GraphModule, probe: Probe) -> tuple[nn.Module, nn.Module | None]:
    """Cut into (x -> values, values -> output); None if nothing is random, and the one value is the output."""
    making = _Halves(module, probe.late)
    for node in module.graph.nodes:
        making.add(node)
    return making.modules()


class _Halves:
    """Two graphs in the making."""

    def __init__(self, module: fx.GraphModule, late: set[fx.Node]):
        self.module, self.late = module, late
        self.first, self.second = fx.Graph(), fx.Graph()
        self.early_copy: dict[fx.Node, fx.Node] = {}  # node of the model -> node of the half
        self.late_copy: dict[fx.Node, fx.Node] = {}
        self.handed: list[fx.Node] = []  # outputs of the first half
        self.parts: dict[str, object] = {}  # modules and tensors by name

    def add(self, node: fx.Node) -> None:
        if node.op in ("call_module", "get_attr"):
            part = operator.attrgetter(node.target)(self.module)
            self.parts[node.target] = quick(part) if node in self.late else part
        if node.op == "output":
            self.result = node.args[0]
        elif node not in self.late:
            self.early_copy[node] = self.first.node_copy(node, self.early_copy.__getitem__)
        elif samples_locally(module_of(self.module, node)) and self.late.isdisjoint(node.all_input_nodes):
            self._add_drawn(node)
        else:
            self.late_copy[node] = self.second.node_copy(node, self._in_second)

    def _add_drawn(self, node: fx.Node) -> None:
        """Cut a layer before which there is no noise: its moments come first, the draw later."""
        moments, draw = self._free_name("moments"), self._free_name("draw")
        self.parts[moments], self.parts[draw] = _Moments(module_of(self.module, node)), _Draw()
        inputs, options = fx.map_arg((node.args, node.kwargs), self.early_copy.__getitem__)
        both = self.first.call_module(moments, inputs, options)
        pair = [self._hand(self.first.call_function(operator.getitem, (both, i))) for i in (0, 1)]
        self.late_copy[node] = self.second.call_module(draw, tuple(pair))

    def _free_name(self, kind: str) -> str:
        """Find a name that no module of the model has."""
        name = f"{kind}{len(self.parts)}"
        while hasattr(self.module, name) or name in self.parts:
            name += "_"
        return name

    def _hand(self, node: fx.Node) -> fx.Node:
        self.handed.append(node)
        with self.second.inserting_before():  # at the beginning, so the last one comes first
            return self.second.placeholder(f"value{len(self.handed)}")

    def _in_second(self, node: fx.Node) -> fx.Node:
        if node not in self.late_copy:
            constant = node.op == "get_attr"
            self.late_copy[node] = self.second.node_copy(node) if constant else self._hand(self.early_copy[node])
        return self.late_copy[node]

    def modules(self) -> tuple[nn.Module, nn.Module | None]:
        if self.result not in self.late:
            self.first.output((self.early_copy[self.result],))
            return self._made(self.first), None
        self.second.output(self.late_copy[self.result])
        self.first.output(tuple(reversed(self.handed)))
        return self._made(self.first), self._made(self.second)

    def _made(self, graph: fx.Graph) -> fx.GraphModule:
        return fx.GraphModule(self.parts, graph)


class _Moments(nn.Module):
    def __init__(self, layer: Variational):
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Any, **options: Any) -> tuple[Tensor | None, Tensor]:
        self.layer.check_input(*inputs, **options)
        return self.layer.moments(*inputs, **options)


class _Draw(nn.Module):
    def forward(self, mean: Tensor | None, variance: Tensor) -> Tensor:
        return local.sample(mean, variance)
