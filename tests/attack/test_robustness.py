"""Rates of successful attacks: hand-made cases, the caution against hidden gradients, and Figure 7 from real runs."""

import pytest
import torch
from scipy.stats import binomtest
from torch import nn

from varnet.attack import gradient as attacks
from varnet.attack import memory, robustness
from varnet.attack.gradient import Attack
from varnet.attack.rates import WHITE_BOX, compared, line, mcnemar, wilson
from varnet.attack.robustness import experiment, right_before
from varnet.evaluation.ensemble import Ensemble


class Rounded(nn.Module):
    """A network that hides its gradient: rounding has none."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x.round())


def bright_or_dark(at: float = 128.25) -> nn.Sequential:
    """Two classes of one-pixel images: 1 above `at`."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[-0.1], [0.1]]))
        model[1].bias.copy_(torch.tensor([0.1, -0.1]) * at)
    return model


X = torch.tensor([120.0, 126.0, 127.0, 129.0, 133.0, 255.0]).view(-1, 1, 1, 1)
Y = torch.tensor([0, 0, 1, 1, 1, 1])  # the third is wrong


def test_rates_of_a_hand_made_case():
    (found,) = experiment({"linear": bright_or_dark()}, X, Y, 2, Attack(iterations=12, samples=1))
    assert found["images"] == 5 and found["iteration"] == list(range(13)) and found["n"] == 1 and found["std"] is None
    # After i steps of 0.5 the images have moved i / 2 towards the other side: 129 is below 128.25 after 2 steps, 126
    # above it after 5, 133 below it after 10; 120 and 255 stay where they were in 12.
    assert found["rate"] == pytest.approx([0, 0, 20, 20, 20, 40, 40, 40, 40, 40, 60, 60, 60])
    assert all(low <= rate <= high for low, rate, high in zip(found["low"], found["rate"], found["high"], strict=True))


def test_images_are_attacked_in_parts(monkeypatch):
    attack, aim = Attack(iterations=12), 1 - Y
    whole = robustness.white_box(bright_or_dark(), X, aim, attack)
    moved = robustness.transfer(bright_or_dark(), {"v": bright_or_dark(129.25)}, X, aim, attack)["v"]
    monkeypatch.setattr(robustness._parts, "__defaults__", (4,))
    monkeypatch.setattr(memory, "ROWS", 4)
    assert whole.shape == (13, 6) and torch.equal(robustness.white_box(bright_or_dark(), X, aim, attack), whole)
    again = robustness.transfer(bright_or_dark(), {"v": bright_or_dark(129.25)}, X, aim, attack)["v"]
    assert torch.equal(again, moved) and not torch.equal(moved, whole)


def test_parts_are_as_large_as_the_memory_allows(monkeypatch):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.rows = bright_or_dark(), []

        def forward(self, x):
            self.rows.append(len(x))
            return self.model(x)

    attack, aim = Attack(iterations=2), 1 - Y
    for size, rows in ((1, 1), (13, 3), (2**30, 6)):  # the pixel is kept, for the gradient of the weights: 4 bytes
        monkeypatch.setattr(memory, "MEMORY", size)
        model = Counting()
        robustness.white_box(model, X, aim, attack)
        assert max(model.rows[3:]) == rows


def test_memory_that_one_more_image_takes():
    image = torch.full((1, 1, 2, 2), 3.0)
    shared = [nn.Flatten(), nn.Linear(4, 3), nn.Tanh()]
    assert memory.bytes_of_graph(nn.Sequential(*shared), image, 1) == 16 + 12  # input; output of tanh
    noisy = nn.Sequential(*shared, nn.Dropout(0.5), nn.Linear(3, 2))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, two, three = (memory.bytes_of_graph(noisy, image, samples) for samples in (1, 2, 3))
    assert one > 28 and three - two == two - one == one - 28  # what comes before the noise is kept once
    assert torch.equal(torch.get_rng_state(), before)


def test_untargeted_attacks_of_two_classes_are_the_targeted_ones():
    attack = Attack(iterations=12, samples=1)
    (aimed,) = experiment({"linear": bright_or_dark()}, X, Y, 2, attack)
    (away,) = experiment({"linear": bright_or_dark()}, X, Y, 2, Attack(iterations=12, samples=1, targeted=False))
    assert aimed["rate"] == away["rate"]


def test_a_hidden_gradient_is_no_robustness():
    plain, hidden = bright_or_dark(), Rounded(bright_or_dark())
    lines = experiment({"plain": plain, "hidden": hidden}, X, Y, 2, Attack(iterations=12), source="plain")
    rates = {(row["network"], row["attack"]): row["rate"][-1] for row in lines}
    assert rates[("hidden", WHITE_BOX)] == 0  # looks perfectly robust,
    assert rates[("hidden", "transfer from plain")] == rates[("plain", WHITE_BOX)] == 60  # and is not at all
    assert ("plain", "transfer from plain") not in rates


def test_only_images_that_all_have_right_are_attacked():
    models = [bright_or_dark(), bright_or_dark(131.0)]
    assert right_before(models, X, Y, 1).tolist() == [True, True, False, False, True, True]
    lines = experiment({"a": models[0], "b": models[1]}, X, Y, 2, Attack(iterations=1), images=3)
    assert [row["images"] for row in lines] == [3, 3]
    with pytest.raises(ValueError, match="none of the 6 images is right in every network"):
        experiment({"a": models[0]}, X, 1 - Y.where(torch.arange(6) != 2, 0), 2, Attack(iterations=1))


def test_seeds_of_a_network_are_averaged():
    networks = {"seeds": [bright_or_dark(), bright_or_dark(130.0)]}
    (found,) = experiment(networks, X, Y, 2, Attack(iterations=12))
    alone = [
        robustness.white_box(m, X[[0, 1, 4, 5]], 1 - Y[[0, 1, 4, 5]], Attack(iterations=12)) for m in networks["seeds"]
    ]
    rates = torch.stack([a.double().mean(1) for a in alone])
    assert found["n"] == 2 and found["images"] == 4
    assert found["rate"] == pytest.approx((100 * rates.mean(0)).tolist())
    assert found["std"] == pytest.approx((100 * rates.std(0)).tolist()) and max(found["std"]) > 0


def test_the_outcome_of_every_image_is_kept():
    networks = {"a": [bright_or_dark(), bright_or_dark(131.0)], "b": bright_or_dark()}
    lines = experiment(networks, X, Y, 2, Attack(iterations=8))
    assert [row["which"] for row in lines] == [[0, 1, 4, 5]] * 2
    assert list(lines[0]["outcomes"]) == ["1", "2", "4", "8"]
    assert lines[1]["outcomes"]["8"] == ["0100"] and lines[0]["outcomes"]["4"] == ["0000", "0010"]
    for row in lines:
        for i, outcomes in row["outcomes"].items():
            assert row["rate"][int(i)] == pytest.approx(100 * sum(o.count("1") for o in outcomes) / 4 / row["n"])


def outcomes(name: str, *of_models: str, kind: str = WHITE_BOX) -> dict:
    """A line of one iteration, in which these images of each model are fooled."""
    success = [torch.tensor([[False] * len(marks), [mark == "1" for mark in marks]]) for marks in of_models]
    return line(name, kind, success, Attack(iterations=1))


def test_networks_are_compared_on_the_same_images():
    lines = [outcomes("a", "1111100", "1111110"), outcomes("b", "0000010"), outcomes("b", "1111111", kind="transfer")]
    (found,) = [each for each in compared(lines) if each["iteration"] == 1]
    assert found["networks"] == ["a", "b"] and found["fooled_more"] == [5, 1] and found["images"] == 7
    assert found["p"] == pytest.approx(binomtest(1, 6).pvalue)
    assert compared(lines[:1]) == [] and len(compared(lines)) == 2  # iterations 0 and 1


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 5), (3, 11), (40, 40), (700, 650)])
def test_mcnemar(first, second):
    n = first + second
    assert mcnemar(first, second) == pytest.approx(binomtest(first, n).pvalue if n else 1.0)


def test_every_part_of_an_experiment_has_noise_of_its_own(monkeypatch):
    seeds, run, predict = [], attacks.run, robustness.predict

    def attacked(model, x, aim, attack, keep=False):
        seeds.append(attack.seed)
        return run(model, x, aim, attack, keep)

    def shown(*given, seed=0, **more):
        seeds.append(seed)
        return predict(*given, seed=seed, **more)

    monkeypatch.setattr(robustness.attacks, "run", attacked)
    monkeypatch.setattr(memory, "ROWS", 3)
    networks = {"a": [Noisy(bright_or_dark()), Noisy(bright_or_dark())], "b": Noisy(bright_or_dark())}
    right = torch.ones(6).bool()
    monkeypatch.setattr(robustness, "right_before", lambda *_: right)
    monkeypatch.setattr(robustness, "predict", shown)
    given = (networks, X, Y, 2, Attack(iterations=1, samples=2), None, 3, "a")
    experiment(*given)
    assert len(seeds) > 15 and len({*seeds}) == len(seeds)
    before = seeds.copy()
    seeds.clear()
    experiment(*given)
    assert seeds == before


class Noisy(nn.Module):
    """Noise of the caller's own, which no layer of varnet is known for."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x + 4 * torch.randn_like(x))


def test_noise_of_the_callers_own_is_averaged():
    model = Noisy(bright_or_dark())
    kinds = [row["attack"] for row in experiment({"a": model}, X, Y, 2, Attack(iterations=1), eot=20)]
    assert kinds == [WHITE_BOX, "EOT, 20 samples"]
    seen = [attacks.run(model, X, Y, Attack(iterations=0, samples=4000, seed=seed)).log_probs[0] for seed in (0, 1)]
    torch.testing.assert_close(seen[0].exp(), seen[1].exp(), rtol=0, atol=0.03)


def test_images_for_others_are_made_within_the_memory(monkeypatch):
    source = bright_or_dark()
    monkeypatch.setattr(memory, "MEMORY", 3 * memory.bytes_of_graph(source, X, 1))
    sizes = []
    monkeypatch.setattr(
        robustness.attacks,
        "run",
        lambda *given, run=robustness.attacks.run, **more: (sizes.append(len(given[1])), run(*given, **more))[1],
    )
    robustness.transfer(source, {"v": bright_or_dark()}, X, 1 - Y, Attack(iterations=1))
    assert sizes == [3, 3]


def test_an_unknown_source():
    with pytest.raises(ValueError, match="source='b' is not among the networks: a"):
        experiment({"a": bright_or_dark()}, X, Y, 2, Attack(), source="b")


def test_images_are_shown_to_networks_of_another_seed(monkeypatch):
    """Each pair of a source and a victim; both attacks and verdicts are told by the networks' thresholds."""
    met = []

    def transfer(source, victims, x, aim, attack):
        met.extend((source.at, name, victim.at) for name, victim in victims.items())
        return {name: torch.ones(2, len(x)) * victim.at / 100 for name, victim in victims.items()}

    def network(at: float) -> nn.Module:
        model = bright_or_dark()
        model.at = at
        return model

    a, b, c, both = [network(1), network(2), network(3)], [network(10), network(11)], [network(20)], network(30)
    monkeypatch.setattr(robustness, "transfer", transfer)
    networks, seeds = {"a": a, "b": b, "c": c, "both": both}, {"a": [0, 1, 2], "b": [1, 0], "c": [2]}
    lines = experiment(networks, X, Y, 2, Attack(iterations=1), source="a", seeds=seeds)
    assert sorted(met) == [
        (1, "a", 2), (1, "b", 10), (1, "both", 30), (1, "c", 20),
        (2, "a", 3), (2, "b", 11), (2, "both", 30), (2, "c", 20),
        (3, "a", 1), (3, "b", 10), (3, "both", 30),
    ]  # fmt: skip
    rows = {row["network"]: row for row in lines if row["attack"].startswith("transfer")}
    assert [rows[name]["n"] for name in networks] == [3, 3, 2, 3]
    assert rows["b"]["rate"] == pytest.approx([100 * (0.10 + 0.11 + 0.10) / 3] * 2)
    torch.testing.assert_close(torch.tensor(rows["b"]["each"]), torch.tensor([[10.0] * 2, [11.0] * 2, [10.0] * 2]))
    met.clear()
    experiment({"a": a[:1], "c": c}, X, Y, 2, Attack(iterations=1), source="a", seeds={"a": [2], "c": [2]})
    assert met == [(1, "c", 20)], "there is no other seed"


def test_a_source_inside_an_ensemble_is_said():
    plain = bright_or_dark()
    networks = {"plain": plain, "both": Ensemble([plain, bright_or_dark(130.0)])}
    kinds = [row["attack"] for row in experiment(networks, X, Y, 2, Attack(iterations=1), source="plain")]
    assert kinds == [WHITE_BOX, WHITE_BOX, "transfer from plain, a member"]


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"images": 0}, "images", "a whole number from 1"),
        ({"images": 2.5}, "images", "a whole number from 1"),
        ({"eot": 5}, "eot", "a whole number from 10"),
        ({"seeds": {"a": [0, 1]}}, "seeds.a", "give one seed for each network"),
        ({"classes": 1}, None, "classes=1: these do not fit together"),
        ({"y": Y[:2]}, None, "6 images, 2 labels"),
        ({"networks": {"a": []}}, None, "a has no network"),
        ({"networks": {}}, None, "has no network"),
    ],
)
def test_wrong_experiments_are_refused_before_any_attack(changes, key, words, monkeypatch):
    monkeypatch.setattr(robustness, "white_box", lambda *_: pytest.fail("attacked"))
    given = {"networks": {"a": bright_or_dark()}, "x": X, "y": Y, "classes": 2, "attack": Attack()} | changes
    with pytest.raises(ValueError) as caught:
        experiment(**given)
    assert getattr(caught.value, "key", None) == key and words in str(caught.value)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (200, 200), (57, 200)])
def test_wilson(k, n):
    reference = binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson(k / n, n) == pytest.approx((reference.low, reference.high), abs=1e-12)


def test_lines_that_are_known_are_not_made_again(monkeypatch):
    networks = {"plain": bright_or_dark(), "noisy": Noisy(bright_or_dark())}
    given = (networks, X, Y, 2, Attack(iterations=12), None, 20, "plain")
    told = []
    lines = experiment(*given, told.append)
    assert lines == told and [row["attack"] for row in lines] == [
        WHITE_BOX, WHITE_BOX, "EOT, 20 samples", "transfer from plain"
    ]  # fmt: skip
    for there in range(len(lines) + 1):
        told = []
        assert experiment(*given, told.append, known=lines[:there]) == lines and told == lines[there:]
    monkeypatch.setattr(attacks, "run", None)  # no attack at all
    assert experiment(*given, known=lines) == lines
