"""Images that are attacked at once: as many as the graph of one step has room for."""

import torch
from torch import Tensor, nn

from varnet.attack.gradient import Attack, is_random
from varnet.evaluation.predictions import isolated
from varnet.evaluation.prefix import Sampler
from varnet.nn.modes import predicting

ROWS = 100  # images at once, at most
MEMORY = 2**30  # bytes that the graph of a step may take


def rows_at_once(model: nn.Module, x: Tensor, attack: Attack) -> int:
    """Count the images that fit into the memory for a step."""
    samples = attack.samples if is_random(model, x) else 1
    return min(ROWS, max(1, MEMORY // bytes_of_graph(model, x, samples)))


def bytes_of_graph(model: nn.Module, x: Tensor, samples: int) -> int:
    """Measure what autograd keeps for one more image: that of two less that of one, which holds the weights too."""

    def kept(images: Tensor) -> int:
        storages = {}

        def pack(value: Tensor) -> Tensor:
            storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
            return value

        sampler.prepare(images)  # what it tries out is not kept
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            _outputs = list(sampler(images.requires_grad_(), samples))  # hold their graphs: no address is used twice
        return sum(storages.values())

    with isolated(0), predicting(model, "sample"), torch.enable_grad():
        sampler = Sampler(model)
        one, two = (kept(x[:1].detach().float().repeat(n, *[1] * (x.dim() - 1))) for n in (1, 2))
    return max(1, two - one)
