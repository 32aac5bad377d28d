"""Run the commands of docs/extending.md, shortened, in a copy of the project with the files of that page: a script.

Its argument is {"train": commands, "reproduce": commands, "made": folder of all that is written} as JSON; the last line
that it prints is what test_extending.py looks at.
"""

import json
import math
import sys
from pathlib import Path

import torch
from torch import nn

import varnet
from varnet import predict, predicting, variational
from varnet.base.plots import curves, rendered
from varnet.cli import reproduce
from varnet.cli.train import run
from varnet.nn.layers import Conv2d, layers_of
from varnet.nn.likelihoods import likelihood_of
from varnet.nn.priors import PRIORS
from varnet.paper.library import Library
from varnet.paper.reproduction import jobs_of
from varnet.runs.build import build_model, load_data
from varnet.runs.composing import composed
from varnet.train.trainer import Trainer

SMALL = (
    "schedule.epochs=1", "schedule.batch_size=50", "dataset.train_size=100", "dataset.test_size=50", "eval.samples=2",
    "eval.elbo_samples=2", "threads=1",
)  # fmt: skip


def trained(words: list[str], made: Path) -> dict:
    """The numbers of a run and what its network is made of."""
    overrides = [word.replace("seed=0,1", "seed=0") for word in words if word != "-m"]
    digits = [] if any(word.startswith("dataset=") for word in words) else ["dataset=digits"]
    narrow = [] if {"model=custom", "model=fc"} & set(words) else ["model.width=0.1"]
    cfg = composed(*digits, *narrow, *overrides, *SMALL, f"out_dir={made}")
    metrics, data = run(cfg), load_data(cfg)
    model = build_model(cfg, data)
    layers = layers_of(model)
    return {
        **{key: metrics.get(key) for key in ("acc_k", "rmse_k", "kl", "name", "log_alpha")},
        "layers": list(layers), "kinds": [type(layer).__name__ for layer in layers.values()],
        "params": sorted({layer.param.name for layer in layers.values()}),
        "priors": sorted({layer.prior.name for layer in layers.values()}),
        "option": cfg.param.get("rho", cfg.prior.get("breadth", cfg.get("likelihood", {}).get("breadth"))),
        "classes": data.classes, "in_shape": list(data.in_shape),
        "convolutions": sum(isinstance(m, nn.Conv2d | Conv2d) for m in model.modules()),
    }  # fmt: skip


def laplace(breadth: float, log_alpha: float, samples: int = 20_000) -> dict:
    """The KL of one layer in closed form and by samples of its weights."""
    plain = nn.Linear(4, 3, bias=False)
    layer = variational(plain, param="weight", prior="laplace", breadth=breadth, log_alpha=log_alpha)
    assert type(layer.prior) is PRIORS["laplace"]
    mean, variance, _ = layer.posterior()
    q, p = torch.distributions.Normal(mean, variance.sqrt()), torch.distributions.Laplace(0.0, breadth)
    w = q.sample((samples,))
    values = (q.log_prob(w) - p.log_prob(w)).sum((1, 2)).detach()
    error = float(values.std()) / math.sqrt(samples)
    return {"closed": float(layer.kl()), "sampled": float(values.mean()), "error": error}


def noise() -> dict:
    """Whether the likelihood of the page is the distribution of torch."""
    out, target = torch.randn(5, 2), 3 * torch.randn(5, 2)
    wanted, found = torch.distributions.Laplace(out, 0.7), likelihood_of("laplace", breadth=0.7)
    return {
        "log_prob": torch.allclose(found.log_prob(out, target), wanted.log_prob(target).sum(1), atol=1e-5),
        "cdf": torch.allclose(found.cdf(out, target)[0], wanted.cdf(target), atol=1e-5),
        "variance": torch.allclose(found.variance_of(out), wanted.variance),
    }


@torch.no_grad()
def bag() -> dict:
    """Whether sums of word vectors are a dense layer of counts, in every way of predicting."""
    plain, dense = nn.EmbeddingBag(5, 4, mode="sum"), nn.Linear(5, 4, bias=False)
    dense.weight.copy_(plain.weight.t())
    words, counted = (variational(nn.Sequential(m), param="neuron", log_alpha=-1.0) for m in (plain, dense))
    x = torch.tensor([[0, 3, 3], [1, 2, 4], [4, 4, 4]])
    counts = nn.functional.one_hot(x, 5).sum(1).float()

    def alike(mode: str, layer=lambda net, x: net(x)) -> bool:
        found = []
        for net, given in ((words, x), (counted, counts)):
            torch.manual_seed(1)
            with predicting(net, mode):
                found.append(layer(net, given))
        return torch.allclose(*found, atol=1e-5)

    def fast(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return predict(net, [(x, torch.zeros(len(x), dtype=torch.long))], "sample", samples=3, seed=2).log_probs

    with predicting(words, "weights"):
        held = torch.allclose(words(x), counts @ words[0].weight, atol=1e-5)
    moments = alike("sample", lambda net, x: torch.cat([m.flatten() for m in net[0].moments(x)]))
    return {
        "kind": type(words[0]).__name__ == "EmbeddingBag", "deterministic": alike("deterministic"),
        "moments": moments, "weights": held, "fast": alike("sample", fast),
    }  # fmt: skip


def reproduced(words: list[str], made: Path) -> int:
    """The exit code of `varnet reproduce`, whose runs are there already: here, not in processes of their own."""
    names = [word for word in words if "=" not in word]
    overrides = (f"out_dir={made}", "threads=1")
    for job in jobs_of(names, Library(2, "full", overrides)):
        run(job.config())
    return reproduce.main([*words, "run=false", f"out={made / 'reproduced'}", *overrides])


def main(train: list, reproduce: list, made: str) -> None:
    place, picture = Path(made), rendered(curves([0, 1], {"line": [0, 1]}, "", "", ""))
    assert Path(varnet.__file__).is_relative_to(place.parent), "another copy of varnet was imported"
    Trainer.figure = lambda self: picture  # which takes longer than so short a run
    found = {
        "runs": [trained(words, place) for words in train],
        "laplace": [laplace(breadth, log_alpha) for breadth in (0.1, 1.0) for log_alpha in (-3.0, 0.0, 2.0)],
        "noise": noise(),
        "bag": bag(),
        "reproduced": max(reproduced(words, place) for words in reproduce),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
