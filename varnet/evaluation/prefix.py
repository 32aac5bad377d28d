"""K predictions for little more than one: what does not depend on the noise is computed once (section 6.1's protocol).

A model in its present state (`predicting`) is traced by torch.fx and cut in two. The prefix holds everything that no
noise reaches, the moments of the variational layers that it feeds included; it runs once per batch. The suffix draws
from these moments and runs once per sample. Which operations are random is found by running them: those that move a
random generator. The cut is checked against the model itself on two rows; a model that cannot be traced, or for which
the check fails, is run whole for every sample. Noise that a model draws from a generator of its own, or outside torch,
is not seen.
"""

import contextlib
import operator
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from varnet.nn import lrt_fast as local
from varnet.nn.layers import Variational


class Sampler:
    """Draws outputs of a model that stays in one state. Bit for bit what calls of the model one after the other give,
    unless `fold` puts several samples into one batch: the same in distribution, fewer calls."""

    def __init__(self, model: nn.Module, fold: int | None = None):
        """fold: rows of a batch into which several samples may be put; None: one sample after the other."""
        self.model = getattr(model, "_orig_mod", model)  # of torch.compile
        self.fold = fold
        self.cut: Cut | None = None
        self.ready = False

    def __call__(self, x: Tensor, samples: int) -> Iterator[Tensor]:
        """`samples` outputs of the model for the batch x."""
        if not self.ready:
            self.cut, self.ready = cut(self.model, x), True
        if self.cut is None:
            return (self.model(x) for _ in range(samples))
        return self._from_prefix(self.cut.prefix(x), samples, len(x))

    @property
    def stochastic(self) -> bool:
        """Whether samples differ; known after the first batch."""
        return self.cut is None or self.cut.suffix is not None

    def _from_prefix(self, values: tuple, samples: int, rows: int) -> Iterator[Tensor]:
        if self.cut.suffix is None:
            yield from [values[0]] * samples
            return
        at_once = max(1, self.fold // rows) if self.fold and self.cut.rowwise else 1
        for start in range(0, samples, at_once):
            n = min(at_once, samples - start)
            if n == 1:
                yield self.cut.suffix(*values)
            else:
                yield from self.cut.suffix(*(_repeated(v, n, rows) for v in values)).unflatten(0, (n, rows))


def _repeated(value: object, times: int, rows: int) -> object:
    batched = isinstance(value, Tensor) and value.dim() > 0 and len(value) == rows
    return value.repeat(times, *[1] * (value.dim() - 1)) if batched else value


class Cut(NamedTuple):
    prefix: nn.Module  # x -> values
    suffix: nn.Module | None  # values -> output; None if nothing is random, and the value is the output
    rowwise: bool  # every row of a batch has noise of its own


def cut(model: nn.Module, x: Tensor) -> Cut | None:
    """None if the model has to be run whole."""
    few = x[:2]
    before = _generators(x)
    with _restored(before, x), torch.no_grad():
        try:
            module = fx.GraphModule(model, _Tracer().trace(model))
        except Exception:  # control flow that depends on values, and whatever else cannot be traced
            return None
        if not _same(before, _generators(x)):  # noise drawn while tracing would be a constant of the graph
            return None
        (output,) = module.graph.find_nodes(op="output")
        if not isinstance(output.args[0], fx.Node):  # several outputs
            return None
        found = _cut_at_noise(module, few)
        return found if _agrees(found, model, few) else None


def draws(model: nn.Module, x: Tensor) -> bool:
    """Whether a call of the model draws random numbers. It leaves the generators as they were."""
    before = _generators(x)
    with _restored(before, x), torch.no_grad():
        model(x)
        return not _same(before, _generators(x))


class _Tracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return isinstance(module, Variational) or super().is_leaf_module(module, name)


class _Probe(fx.Interpreter):
    """Runs a graph and notes the nodes that move a random generator."""

    def __init__(self, module: fx.GraphModule, x: Tensor):
        super().__init__(module)
        self.x, self.random = x, set()

    def run_node(self, node: fx.Node) -> object:
        before = _generators(self.x)
        out = super().run_node(node)
        layer = _module_of(self.module, node)
        # A held draw of the weights moves no generator, but `resample` may come between two samples.
        held = isinstance(layer, Variational) and layer.state.sampling == "weights" and not layer.param.deterministic
        if held or not _same(before, _generators(self.x)):
            self.random.add(node)
        return out


def _cut_at_noise(module: fx.GraphModule, x: Tensor) -> Cut:
    probe = _Probe(module, x)
    probe.run(x)
    random = {node: _module_of(module, node) for node in probe.random}
    late = set()  # what noise reaches
    for node in module.graph.nodes:
        if node in random or not late.isdisjoint(node.all_input_nodes):
            late.add(node)
    halves = _Halves(module, late)
    for node in module.graph.nodes:
        halves.add(node)
    rowwise = all(_samples_locally(m) or isinstance(m, nn.modules.dropout._DropoutNd) for m in random.values())
    return Cut(*halves.modules(), rowwise)


class _Halves:
    """Two graphs in the making; values that the second needs of the first are its inputs."""

    def __init__(self, module: fx.GraphModule, late: set[fx.Node]):
        self.module, self.late = module, late
        self.first, self.second = fx.Graph(), fx.Graph()
        self.early_copy, self.late_copy = {}, {}  # node of the model -> node of the half
        self.handed: list[fx.Node] = []  # outputs of the first half
        self.parts: dict[str, object] = {}  # modules and tensors by name

    def add(self, node: fx.Node) -> None:
        if node.op in ("call_module", "get_attr"):
            part = operator.attrgetter(node.target)(self.module)
            self.parts[node.target] = _quick(part) if node in self.late else part
        if node.op == "output":
            self.result = node.args[0]
        elif node not in self.late:
            self.early_copy[node] = self.first.node_copy(node, self.early_copy.__getitem__)
        elif _samples_locally(_module_of(self.module, node)) and self.late.isdisjoint(node.all_input_nodes):
            self._add_drawn(node)
        else:
            self.late_copy[node] = self.second.node_copy(node, self._in_second)

    def _add_drawn(self, node: fx.Node) -> None:
        """A layer before which there is no noise: its moments come first, the draw later."""
        name = f"moments{len(self.parts)}"
        self.parts[name], self.parts["draw"] = _Moments(_module_of(self.module, node)), _Draw()
        inputs = tuple(self.early_copy[parent] for parent in node.all_input_nodes)
        moments = self.first.call_module(name, inputs)
        pair = [self._hand(self.first.call_function(operator.getitem, (moments, i))) for i in (0, 1)]
        self.late_copy[node] = self.second.call_module("draw", tuple(pair))

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

    def forward(self, x: Tensor) -> tuple[Tensor | None, Tensor]:
        self.layer.check_input(x)
        return self.layer.moments(x)


class _Draw(nn.Module):
    def forward(self, mean: Tensor | None, variance: Tensor) -> Tensor:
        return local.sample(mean, variance)


def _quick(part: object) -> object:
    """A module with the same values that is faster when called many times without a gradient."""
    if _samples_locally(part):
        return _Frozen(part)
    return _Pool() if isinstance(part, nn.MaxPool2d) and _is_plain_pool(part) else part


class _Frozen(nn.Module):
    """A layer whose weights do not change between samples: their variances are computed once."""

    def __init__(self, layer: Variational):
        super().__init__()
        self.layer, self.moments = layer, None

    def forward(self, x: Tensor) -> Tensor:
        if local.low_precision(x) is not None or torch.is_grad_enabled():
            return self.layer(x)
        self.layer.check_input(x)
        x, conv = self.layer.prepare(x)
        if self.moments is None:
            self.moments = self.layer.frozen(conv)
        mean, variance = self.moments
        mean_of_output = local.output_mean(x, mean, self.layer.bias, conv)
        return local.sample(mean_of_output, local.variance_without_grad(x, *variance, conv))


class _Pool(nn.Module):
    """Max pooling over 2x2 as two maxima, without the positions that only a gradient needs."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return F.max_pool2d(x, 2)
        height, width = (n // 2 * 2 for n in x.shape[-2:])
        rows = torch.maximum(x[..., 0:height:2, :width], x[..., 1:height:2, :width])
        return torch.maximum(rows[..., 0::2], rows[..., 1::2])


def _is_plain_pool(pool: nn.MaxPool2d) -> bool:
    sizes = (pool.kernel_size, pool.stride, pool.padding, pool.dilation)
    plain = [size in (value, (value, value)) for size, value in zip(sizes, (2, 2, 0, 1), strict=True)]
    return all(plain) and not pool.return_indices and not pool.ceil_mode


def _samples_locally(module: object) -> bool:
    return isinstance(module, Variational) and module.samples_locally


def _module_of(module: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    return module.get_submodule(node.target) if node.op == "call_module" else None


def _agrees(found: Cut, model: nn.Module, x: Tensor) -> bool:
    """Two samples from the cut and from the model itself, with the same noise."""
    states = _generators(x)
    values = found.prefix(x)
    fast = [values[0] if found.suffix is None else found.suffix(*values) for _ in range(2)]
    _restore(states, x)
    return all(torch.allclose(a, model(x), rtol=1e-4, atol=1e-5, equal_nan=True) for a in fast)


def _generators(x: Tensor) -> list[Tensor]:
    """The states of the generators from which a model on this device may draw."""
    states = [torch.get_rng_state()]
    if x.device.type != "cpu":
        states.append(getattr(torch, x.device.type).get_rng_state())
    return states


def _restore(states: list[Tensor], x: Tensor) -> None:
    torch.set_rng_state(states[0])
    if x.device.type != "cpu":
        getattr(torch, x.device.type).set_rng_state(states[1])


@contextlib.contextmanager
def _restored(states: list[Tensor], x: Tensor) -> Iterator[None]:
    """Whatever is drawn inside, the generators end as they were."""
    try:
        yield
    finally:
        _restore(states, x)


def _same(before: list[Tensor], after: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
