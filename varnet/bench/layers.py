"""Training step of LeNet-5, batch 200: what random weights cost, against the same network without noise in the same
memory layout, against a textbook local reparameterization, and beside three public libraries (extra `bench`)."""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varnet import kl, negative_elbo
from varnet.bench.timing import interleaved
from varnet.nn.layers import Variational
from varnet.nn.networks import build

BATCH, DATA_SIZE = 200, 60_000
ALL_FOUR = {"layers": "all", "bias": True, "batch_norm": ["dense1"]}  # as in Table 2; the default is Table 1's network
TARGETS = {  # (ratio to no noise, ratio to the textbook)
    "zero-mean dense1": (1.06, None),
    "layer-wise dense1": (1.10, None),
    "layer-wise, all four": (2.10, 0.75),
}


class TextbookLayer(nn.Module):
    """Layer-wise local reparameterization written as the equations are: the baseline."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer, self.log_alpha = layer, nn.Parameter(torch.tensor(-5.0))

    def forward(self, x: Tensor) -> Tensor:
        mean = self.layer(x)
        variance = self.log_alpha.exp() * self.layer.weight * self.layer.weight
        if isinstance(self.layer, nn.Conv2d):
            spread = F.conv2d(x * x, variance, None, self.layer.stride, self.layer.padding)
        else:
            spread = F.linear(x * x, variance)
        return mean + torch.sqrt(spread + 1e-16) * torch.randn_like(mean)

    def kl(self) -> Tensor:
        term = 0.63576 * (1 - torch.sigmoid(1.8732 + 1.48695 * self.log_alpha)) + 0.5 * F.softplus(-self.log_alpha)
        return self.layer.weight.numel() * term


def textbook(model: nn.Sequential) -> nn.Sequential:
    """Textbook layers in place of those of a network, activation before pooling: what one would write first."""
    modules = dict(model.named_children())
    names = list(modules)
    for pool in [name for name in names if name.endswith("_pool")]:
        i = names.index(pool)
        names[i], names[i + 1] = names[i + 1], names[i]
    wrapped = {n: TextbookLayer(m) if isinstance(m, nn.Linear | nn.Conv2d) else m for n, m in modules.items()}
    return nn.Sequential(OrderedDict((n, wrapped[n]) for n in names))


class PeerLayer(nn.Module):
    """A layer of a library, which may return its KL beside the output; other forms of KL are left out of the time."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer, self.last_kl = layer, 0.0

    def forward(self, x: Tensor) -> Tensor:
        out = self.layer(x)
        if isinstance(out, tuple):
            out, self.last_kl = out
        return out


def peers() -> dict[str, nn.Sequential]:
    """The same network of each library that is installed."""
    found = {}
    for name, make in (("bayesian-torch", _bayesian_torch), ("blitz", _blitz), ("torchbnn", _torchbnn)):
        try:
            conv, dense = make()
        except ImportError:
            continue
        model = textbook(build("lenet5", (1, 28, 28), 10, **{**ALL_FOUR, "layers": "none"}))
        for child, module in list(model.named_children()):
            if isinstance(module, TextbookLayer):
                old = module.layer
                new = conv(old) if isinstance(old, nn.Conv2d) else dense(old)
                setattr(model, child, PeerLayer(new))
        found[name] = model
    return found


def _bayesian_torch():
    from bayesian_torch.layers import Conv2dReparameterization, LinearReparameterization

    return (
        lambda c: Conv2dReparameterization(c.in_channels, c.out_channels, c.kernel_size[0]),
        lambda d: LinearReparameterization(d.in_features, d.out_features),
    )


def _blitz():
    from blitz.modules import BayesianConv2d, BayesianLinear

    return (
        lambda c: BayesianConv2d(c.in_channels, c.out_channels, c.kernel_size),
        lambda d: BayesianLinear(d.in_features, d.out_features),
    )


def _torchbnn():
    import torchbnn

    return (
        lambda c: torchbnn.BayesConv2d(0, 0.1, c.in_channels, c.out_channels, c.kernel_size),
        lambda d: torchbnn.BayesLinear(0, 0.1, d.in_features, d.out_features),
    )


def step(model: nn.Module, channels_last: bool):
    """One training step: forward, negative ELBO, backward, Adam."""
    x, target = torch.rand(BATCH, 1, 28, 28), torch.randint(10, (BATCH,))
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    ours = not any(isinstance(m, TextbookLayer | PeerLayer) for m in model)

    def loss() -> Tensor:
        logits = model(x)
        if ours:
            return negative_elbo(model, logits, target, DATA_SIZE)
        terms = [m.kl() if isinstance(m, TextbookLayer) else m.last_kl for m in model if hasattr(m, "layer")]
        return DATA_SIZE * F.cross_entropy(logits, target) + sum(terms)

    def run() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return run


def lenet5(**options) -> nn.Sequential:
    return build("lenet5", (1, 28, 28), 10, **options)


def run(args) -> dict[str, list[dict]]:
    plain_four = {**ALL_FOUR, "layers": "none"}
    cases = {
        "no noise": step(lenet5(layers="none"), True),
        "zero-mean dense1": step(lenet5(param="zero_mean"), True),
        "layer-wise dense1": step(lenet5(param="layer"), True),
        "no noise (biases)": step(lenet5(**plain_four), True),
        "no noise (biases), NCHW": step(lenet5(**plain_four), False),
        "layer-wise, all four": step(lenet5(**ALL_FOUR), True),
        "textbook, all four, NCHW": step(textbook(lenet5(**plain_four)), False),
    } | {f"{name}, all four, NCHW": step(model, False) for name, model in peers().items()}
    seconds = interleaved(cases, args.repeats or 60)
    return {"rows": [_row(name, seconds) for name in cases], "memory": memory()}


def _row(name: str, seconds: dict[str, float]) -> dict:
    base = "no noise" if name.endswith("dense1") or name == "no noise" else "no noise (biases)"
    base = base + ", NCHW" if name.endswith("NCHW") else base
    to_plain, to_textbook = TARGETS.get(name, (None, None))
    return {
        "training step": name,
        "ms": 1000 * seconds[name],
        "to no noise": seconds[name] / seconds[base],
        "target": to_plain,
        "to textbook": seconds[name] / seconds["textbook, all four, NCHW"],
        "target ": to_textbook,
    }


def memory() -> list[dict]:
    """Bytes of parameters and of what is kept for the backward pass, of each layer and of its deterministic twin."""
    rows = []
    for param in ("zero_mean", "layer", "neuron", "weight", "additive"):
        for name, shape in {"conv1": (1, 28, 28), "conv2": (20, 12, 12), "dense1": (800,), "dense2": (500,)}.items():
            ours, twin = (getattr(lenet5(layers=which, param=param), name) for which in ("all", "none"))
            sizes = [_bytes(layer, torch.rand(BATCH, *shape, requires_grad=name != "conv1")) for layer in (ours, twin)]
            extra = [(a - b) / 1e6 for a, b in zip(*sizes, strict=True)]
            rows.append(
                {
                    "param": param,
                    "layer": name,
                    "extra MB, parameters": extra[0],
                    "extra MB, kept for backward": extra[1],
                    "times the twin's": sum(sizes[0]) / sum(sizes[1]),
                }
            )
    return rows


def _bytes(layer: nn.Module, x: Tensor) -> tuple[int, int]:
    """Of the parameters; of the distinct storages saved for the backward pass, the input among them."""
    kept = {}
    parameters = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in layer.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = layer(x)
        penalty = kl(layer) if isinstance(layer, Variational) else 0
    del out, penalty
    return sum(parameters.values()), sum(size for pointer, size in kept.items() if pointer not in parameters)
