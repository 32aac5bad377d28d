"""Rates of successful attacks: hand-made cases, the caution against hidden gradients, and Figure 7 from real runs."""

import json
from pathlib import Path

import pytest
import torch
from scipy.stats import binomtest
from torch import nn

from tests.composing import TINY, tiny
from varnet.attack import gradient as attacks
from varnet.attack import robustness
from varnet.attack.gradient import Attack, Pixels
from varnet.attack.robustness import WHITE_BOX, experiment, line, results, right_before, wilson
from varnet.cli import reproduce
from varnet.cli.train import run
from varnet.evaluation.ensemble import Ensemble
from varnet.evaluation.predictions import predict
from varnet.paper import fig7
from varnet.paper.reproduction import Job, Library, jobs_of


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
    monkeypatch.setattr(robustness, "ROWS", 4)
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
    for memory, rows in ((1, 1), (13, 3), (2**30, 6)):  # the pixel is kept, for the gradient of the weights: 4 bytes
        monkeypatch.setattr(robustness, "MEMORY", memory)
        model = Counting()
        robustness.white_box(model, X, aim, attack)
        assert max(model.rows[3:]) == rows


def test_memory_that_one_more_image_takes():
    image = torch.full((1, 1, 2, 2), 3.0)
    shared = [nn.Flatten(), nn.Linear(4, 3), nn.Tanh()]
    assert robustness.bytes_of_graph(nn.Sequential(*shared), image, 1) == 16 + 12  # input; output of tanh
    noisy = nn.Sequential(*shared, nn.Dropout(0.5), nn.Linear(3, 2))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, two, three = (robustness.bytes_of_graph(noisy, image, samples) for samples in (1, 2, 3))
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
    monkeypatch.setattr(robustness, "MEMORY", 3 * robustness.bytes_of_graph(source, X, 1))
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


def test_rows_of_the_table():
    successes = [torch.tensor([[0, 0], [1, 0], [1, 1]]).bool(), torch.tensor([[0, 0], [0, 0], [1, 1]]).bool()]
    lines = [line("a", WHITE_BOX, successes, Attack()), line("a", "EOT, 50 samples", successes[:1], Attack())]
    rows = results(lines, (1, 9), scale="small", command="c", commit="d", epochs=3)
    assert [(r["row"], r["metric"], r["mean"], r["n"]) for r in rows] == [
        ("a", "successful attacks after 1 iterations, %", 25.0, 2),
        ("a", "successful attacks after 2 iterations, %", 100.0, 2),
        ("a (EOT, 50 samples)", "successful attacks after 1 iterations, %", 50.0, 1),
        ("a (EOT, 50 samples)", "successful attacks after 2 iterations, %", 100.0, 1),
    ]
    assert rows[0]["std"] == pytest.approx(50 / 2**0.5) and rows[2]["std"] is None and rows[0]["published"] is None
    assert {"scale", "command", "commit"} <= set(rows[0])


def test_the_runs_that_figure_7_needs():
    found = [(job.experiment, job.seed) for job in jobs_of(["fig7"], Library(1, "small"))]
    ensembles = ("small/fig7_cifar10_deterministic", "small/table2_cifar10_variance")
    assert sorted(found) == sorted(
        [*((e, s) for e in ensembles for s in range(5)), ("small/table2_cifar10_dropout", 0)]
    )
    assert Job("small/table2_cifar10_variance", 0).folder() in [
        job.folder() for job in jobs_of(["table2"], Library(1, "small"))
    ]
    for name, table in (("fig7_mnist_variance", "table1_zero_mean"), ("fig7_mnist_dropout", "table2_mnist_dropout")):
        assert Job(name, 3).folder() == Job(table, 3).folder()


def test_figure_7_from_real_runs(tmp_path, monkeypatch, capsys):
    """After two steps of training nothing need be right in every network: all images are taken."""
    changes = ("dataset=digits", *TINY, f"out_dir={tmp_path / 'runs'}")
    library = Library(1, "full", changes, recorded=tmp_path / "out" / "runs")
    seeds = {"fig7_mnist_deterministic": 2, "fig7_mnist_dropout": 1, "fig7_mnist_variance": 2}
    for name, count in seeds.items():
        for job in library.jobs(name, seeds=count):
            run(job.config())
    monkeypatch.setattr(robustness, "right_before", lambda models, x, y, samples, seed: torch.ones(len(y)).bool())
    monkeypatch.setattr(fig7.draw, "__defaults__", (Attack(iterations=2, samples=2), 6, 3))
    assert reproduce.write(["fig7_mnist"], library, tmp_path / "out") == ["fig7_mnist"]
    rows = json.loads((tmp_path / "out" / "fig7_mnist.json").read_text())
    names = {row["row"] for row in rows}
    assert {"deterministic", "dropout", "variance", "deep ensemble of 2", "variance ensemble of 2"} <= names
    assert {"variance (EOT, 3 samples)", "variance (transfer from deterministic)"} <= names
    assert "deterministic (EOT, 3 samples)" not in names and "deterministic (transfer from deterministic)" in names
    assert all(row["images"] == 6 and row["published"] is None for row in rows)
    assert {row["n"] for row in rows if row["row"] in ("deterministic", "variance")} == {2}
    assert (tmp_path / "out" / "fig7_mnist.png").read_bytes().startswith(b"\x89PNG")
    assert "| deep ensemble of 2 |" in (tmp_path / "out" / "fig7_mnist.md").read_text()
    assert "deep ensemble of 2" in (tmp_path / "out" / "report.html").read_text()


def test_figure_7_goes_on_where_it_was_stopped(tmp_path, monkeypatch, capsys):
    def lines(file: Path, of: object, commit: str = "abc") -> list[dict]:
        monkeypatch.setattr("varnet.paper.fig7.commit", lambda: commit)
        return fig7.Kept(file, of).lines

    found = [{"network": name, "attack": WHITE_BOX, "rate": [0.0, 1 / 3]} for name in "ab"]
    file, of = tmp_path / "out" / "fig7.part.json", [vars(Attack()), {"a": [{"nll": float("nan")}]}]
    assert lines(file, of) == []
    kept = fig7.Kept(file, of)
    for one in found:
        kept.add(one)
    assert lines(file, of) == found and "b, white box: 0.3 % successful" in capsys.readouterr().out
    assert not lines(file, [vars(Attack(seed=1)), of[1]]) and not lines(file, of, "abd"), "another attack, other code"
    assert not lines(file, of, "abc-dirty") and not lines(None, of)
    for damaged in ("", "{", "[]", "{}", '{"of": null}'):
        file.write_text(damaged)
        assert lines(file, of) == []


def test_an_attack_that_was_stopped_is_not_lost(tmp_path, monkeypatch):
    """The second call makes the lines that the first did not come to, and the file of the first goes away."""
    changes = ("dataset=digits", *TINY, f"out_dir={tmp_path / 'runs'}")
    out = tmp_path / "out"
    library = Library(1, "full", changes, recorded=out / "runs")
    for name in fig7.NETWORKS["fig7_mnist"].values():
        run(Job(name, 0, changes).config())
    monkeypatch.setattr("varnet.paper.fig7.commit", lambda: "abc")
    monkeypatch.setattr(robustness, "right_before", lambda models, x, y, samples, seed: torch.ones(len(y)).bool())
    monkeypatch.setattr(fig7.draw, "__defaults__", (Attack(iterations=1, samples=2), 2, 3))
    attacked, real = [], robustness.white_box

    def white_box(model, *given):
        attacked.append(model)
        if len(attacked) == 3:
            raise KeyboardInterrupt
        return real(model, *given)

    monkeypatch.setattr(robustness, "white_box", white_box)
    with pytest.raises(KeyboardInterrupt):
        reproduce.write(["fig7_mnist"], library, out)
    assert [file.name for file in out.glob("fig7*")] == ["fig7_mnist.part.json"]
    assert reproduce.write(["fig7_mnist"], library, out) == ["fig7_mnist"]
    assert len(attacked) == 3 + 3 + 3, "three of the white box were left, and EOT of three networks"
    assert not (out / "fig7_mnist.part.json").exists()
    numbers = json.loads((out / "fig7_mnist.numbers.json").read_text())
    assert [row["attack"] for row in numbers["lines"]].count(WHITE_BOX) == 5


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


def test_networks_of_figure_7_take_raw_pixels(tmp_path):
    from varnet.runs.folder import folder_of
    from varnet.runs.opening import open_finished

    cfg = tiny(tmp_path, "param=deterministic")
    run(cfg)
    opened = open_finished(folder_of(cfg))
    found = fig7.networks({"deterministic": [opened], "variance": [opened]}, torch.device("cpu"))
    assert list(found) == ["deterministic", "variance", "deep ensemble of 1", "variance ensemble of 1"]
    batches = opened.data.loader("test", 20)
    expected = predict(opened.model, batches).log_probs
    raw = [(opened.data.test_x.float(), opened.data.test_y)]
    for model in (found["deterministic"][0], found["deep ensemble of 1"]):
        assert isinstance(model, Pixels | Ensemble)
        torch.testing.assert_close(predict(model, raw).log_probs, expected, rtol=1e-4, atol=1e-5)
