"""Attacks on several networks side by side: how many succeed, by iteration (section 6.3, Figure 7).

Only images that every network has right before the attack count, and all get the same targets. A verdict has noise of
its own, so that an untargeted rate need not be 0 before the first step. A low rate alone is no robustness: noise may
only hide the gradient. So two more curves go with it: the gradient averaged over more samples (expectation over noise,
EOT), and images made on another network (transfer), which need no gradient of this one.

Every part of an experiment has noise of its own: each network, kind of attack and batch of images. What they share are
the images and their targets.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from varnet.attack import gradient as attacks
from varnet.attack.gradient import Attack, is_random, random_targets, succeeded
from varnet.attack.memory import ROWS, rows_at_once
from varnet.attack.rates import WHITE_BOX, line
from varnet.base.checks import whole
from varnet.errors import ConfigError
from varnet.evaluation.metrics import check_numbers
from varnet.evaluation.predictions import predict

Networks = dict[str, nn.Module | list[nn.Module]]  # several of a name: seeds, whose rates are averaged


def experiment(
    networks: Networks,
    x: Tensor,
    y: Tensor,
    classes: int,
    attack: Attack,
    images: int | None = None,
    eot: int | None = None,
    source: str | None = None,
    tell: Callable[[dict], None] = lambda found: None,
    seeds: dict[str, list[int]] | None = None,
    known: Iterable[dict] = (),
) -> list[dict]:
    """Attack every network; a line (varnet.attack.rates) for each tells the success on the first `images` images that
    all have right.

    networks   take pixels of 0..255 (varnet.attack.Pixels)
    eot        attack the stochastic ones again with steps from this many samples; verdicts as before
    source     the name of the network whose attacked images are shown to the others: those of each of its seeds to
               one of another seed, as networks of one seed begin with the same weights and are alike
    tell       is called with every line as soon as it is there
    seeds      of the networks that are lists; None: 0, 1, ... An ensemble, which is no list, is shown all images
    known      lines that an earlier call with the same arguments told: they are not made again
    """
    several = {name: models if isinstance(models, list) else [models] for name, models in networks.items()}
    _check(several, x, y, classes, attack, images, eot, source, seeds)
    right = _right_in_all(several, x, y, attack)[:images]
    x, y = x[right], y[right]
    aim = random_targets(y, classes, attack.seed) if attack.targeted else y
    there = {(found["network"], found["attack"]): found for found in known}
    lines = []

    def add(name: str, kind: str, attack: Attack, successes: Callable[[], list[Tensor]]) -> None:
        if (name, kind) not in there:
            there[name, kind] = line(name, kind, successes(), attack) | {"which": right.tolist()}
            tell(there[name, kind])
        lines.append(there[name, kind])

    for name, models in several.items():
        add(
            name, WHITE_BOX, attack, lambda name=name, models=models: _attacked(name, WHITE_BOX, models, x, aim, attack)
        )
    if eot is not None:
        more, kind = replace(attack, samples=eot, judged=attack.judged or attack.samples), f"EOT, {eot} samples"
        for name, (model, *_) in several.items():
            if is_random(model, x):
                add(name, kind, more, lambda name=name, model=model: _attacked(name, kind, [model], x, aim, more))
    if source is not None:
        pairs = _pairs(networks, source, seeds or {})
        kinds = {name: _transferred(name, source, several) for name in several if any(name in v for _, v in pairs)}
        shown = {name: [] for name, kind in kinds.items() if (name, kind) not in there}
        for i, (made_on, victims) in enumerate(pairs):
            victims = {name: victim for name, victim in victims.items() if name in shown}
            own = replace(attack, seed=fresh(attack.seed, "transfer", i))
            for name, success in transfer(made_on, victims, x, aim, own).items():
                shown[name].append(success)
        for name, kind in kinds.items():
            add(name, kind, attack, lambda name=name: shown[name])
    return lines


def fresh(seed: int, *part: object) -> int:
    """Choose the seed of the noise of one part of an experiment, which no other part has."""
    return random.Random(repr((seed, *part))).getrandbits(62)


def _attacked(
    name: str, kind: str, models: list[nn.Module], x: Tensor, aim: Tensor, attack: Attack
) -> list[Tensor]:  # fmt: skip
    """Attack each model of a name with its own gradient."""
    own = [replace(attack, seed=fresh(attack.seed, name, kind, i)) for i in range(len(models))]
    return [white_box(model, x, aim, each) for model, each in zip(models, own, strict=True)]


def _transferred(name: str, source: str, several: dict[str, list[nn.Module]]) -> str:
    member = name != source and {*several[source]} & {*several[name][0].modules()}  # then it is hardly a transfer
    return f"transfer from {source}{', a member' if member else ''}"


def _pairs(
    networks: Networks, source: str, seeds: dict[str, list[int]]
) -> list[tuple[nn.Module, dict[str, nn.Module]]]:
    """Pair each network of the source with those, by name, that are shown its images."""

    def with_seeds(name: str) -> list[tuple[int | None, nn.Module]]:
        models = networks[name]
        if not isinstance(models, list):
            return [(None, models)]
        return list(zip(seeds.get(name, range(len(models))), models, strict=True))

    pairs = []
    for i, (own, made_on) in enumerate(with_seeds(source)):
        strangers = {
            name: [model for seed, model in with_seeds(name) if model is not made_on and (seed is None or seed != own)]
            for name in networks
        }
        pairs.append((made_on, {name: others[i % len(others)] for name, others in strangers.items() if others}))
    met = {source}.union(*(victims for _, victims in pairs))
    for name in networks.keys() - met:  # all have the source's seed: there is no better pair
        pairs[-1][1][name] = with_seeds(name)[0][1]
    return pairs


def _check(
    several: dict[str, list[nn.Module]],
    x: Tensor,
    y: Tensor,
    classes: int,
    attack: Attack,
    images: int | None,
    eot: int | None,
    source: str | None,
    seeds: dict[str, list[int]] | None,
) -> None:
    if empty := [name for name, models in several.items() if not models] or ([] if several else ["the dictionary"]):
        raise ValueError(f"networks: {empty[0]} has no network: give at least one")
    if images is not None:
        whole(1)("images", images)
    if eot is not None:
        whole(attack.judged or attack.samples)("eot", eot)  # it judges with as many samples as before
    if len(x) != len(y) or (len(y) and int(y.max()) >= classes):
        largest = int(y.max()) if len(y) else None
        raise ValueError(
            f"{len(x)} images, {len(y)} labels up to {largest}, classes={classes}: these do not fit together"
        )
    if source is not None and source not in several:
        raise ValueError(f"source={source!r} is not among the networks: {', '.join(several)}")
    if wrong := [name for name, values in (seeds or {}).items() if len(values) != len(several.get(name, ()))]:
        name = wrong[0]
        raise ConfigError("is invalid: give one seed for each network of that name", f"seeds.{name}", seeds[name])


def _right_in_all(several: dict[str, list[nn.Module]], x: Tensor, y: Tensor, attack: Attack) -> Tensor:
    """Numbers of the images that every network has right."""
    right = torch.ones(len(y), dtype=torch.bool)
    for name, models in several.items():
        try:
            right &= right_before(models, x, y, attack.judged or attack.samples, attack.seed)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    right = right.nonzero()[:, 0]
    if not len(right):
        raise ConfigError(
            f"none of the {len(y)} images is right in every network: train them longer, or take more candidates"
        )
    return right


def right_before(models: Iterable[nn.Module], x: Tensor, y: Tensor, samples: int, seed: int = 0) -> Tensor:
    """Tell, (N,), which images every model has right."""
    right = torch.ones(len(y), dtype=torch.bool)
    for model in models:
        found = predict(model, _parts(x, y), "sample", samples if is_random(model, x) else 1, seed=seed)
        check_numbers(found.log_probs)
        right &= found.log_probs.argmax(1) == found.y
    return right


def white_box(model: nn.Module, x: Tensor, aim: Tensor, attack: Attack) -> Tensor:
    """Attack a network with its own gradient and tell, (iterations + 1, N), where that succeeds."""
    parts = [
        attacks.run(model, *part, replace(attack, seed=fresh(attack.seed, i))).success(part[1], attack.targeted)
        for i, part in enumerate(_parts(x, aim, rows_at_once(model, x, attack)))
    ]
    return torch.cat(parts, 1).cpu()


def transfer(
    source: nn.Module, victims: dict[str, nn.Module], x: Tensor, aim: Tensor, attack: Attack
) -> dict[str, Tensor]:
    """Make images on the source and tell for each victim, by name, where they succeed, (iterations + 1, N)."""
    if not victims:
        return {}
    found = {name: [] for name in victims}
    for i, (part, aims) in enumerate(_parts(x, aim, rows_at_once(source, x, attack))):
        path = attacks.run(source, part, aims, replace(attack, seed=fresh(attack.seed, i)), keep=True).images
        for name, victim in victims.items():
            samples = (attack.judged or attack.samples) if is_random(victim, part) else 1
            seed = fresh(attack.seed, i, name)
            shown = predict(victim, [(image, aims) for image in path], "sample", samples, seed=seed)
            log_probs = shown.log_probs.unflatten(0, (len(path), len(aims)))
            found[name].append(succeeded(log_probs, aims.cpu(), attack.targeted))
    return {name: torch.cat(parts, 1) for name, parts in found.items()}


def _parts(x: Tensor, y: Tensor, rows: int = ROWS) -> list[tuple[Tensor, Tensor]]:
    return [(part.float(), labels) for part, labels in zip(x.split(rows), y.split(rows), strict=True)]
