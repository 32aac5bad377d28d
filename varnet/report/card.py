"""What a person reads about a stored network, made of its card; and the list of all of them."""

from typing import Any

from varnet.nn.networks.registry import NETWORKS
from varnet.report.row import short

OPEN = """```python
import varnet

found = varnet.load("{name}")  # found.model, found.card, found.cfg; found.data() fetches {data}
```

`varnet evaluate {name}` measures it in every mode, `varnet attack {name}` attacks it.
"""


def page(card: dict[str, Any]) -> str:
    """The README.md of a network."""
    parts = [f"# {card['name']}", card["about"], OPEN.format(name=card["name"], data=card["config"]["dataset"]["name"])]
    return "\n\n".join(part.strip() for part in [*parts, _accuracies(card), _facts(card)]) + "\n"


def _accuracies(card: dict[str, Any]) -> str:
    """The table of all modes."""
    lines = ["| prediction | accuracy, % | 95 % | NLL | ECE |", "|---|---|---|---|---|"]
    for name, of in card["modes"].items():
        spread = f" ± {of['std']:.2f} (n = {of['n']})" if "std" in of else ""
        interval = "{:.2f} to {:.2f}".format(*of["accuracy_interval"]) if "accuracy_interval" in of else ""
        rest = [f"{of[key]:.4f}" if key in of else "" for key in ("nll", "ece")]
        cells = [name.replace("K", str(card["samples"])), f"{of['accuracy']:.2f}{spread}", interval, *rest]
        lines.append(f"| {' | '.join(cells)} |")
    return f"Measured on these files, {card['objects']:,} test objects:\n\n" + "\n".join(lines)


def _facts(card: dict[str, Any]) -> str:
    cfg = card["config"]
    random = cfg["param"]["layers"] or list(NETWORKS[cfg["model"]["name"]].layers)
    facts = {
        "what": f"{cfg['model']['name']}, width {cfg['model']['width']:g}, {card['classes']} classes of "
        f"{cfg['dataset']['name']}",
        "weights": f"param={cfg['param']['name']}, prior={cfg['prior']['name']}, random layers: {_listed(random)}",
        "trained": f"{cfg['schedule']['epochs']} epochs, precision {cfg['precision']}, seed {card['seed']}, commit "
        f"{short(card['commit'])}; the whole configuration is in card.yaml",
        "stored": f"{card['bytes']:,} bytes, {_kind(card)}, by commit {short(card['stored_by'])}",
    }
    return "\n".join(f"- {key}: {value}" for key, value in facts.items())


def _listed(names: str | list[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names)


def _kind(card: dict[str, Any]) -> str:
    if card["kind"] == "compact":
        return f"compact: without the weights of log alpha from {card['threshold']:g} on"
    return "weights rounded to half precision" if card["precision"] == "half" else "float32"


HEAD = """# Trained networks

`varnet.load(NAME)`, `varnet evaluate NAME`, `varnet attack NAME`. Accuracies are those of the stored files, in %.
`python scripts/publish.py network=NAME from=RUN about="what it is"` adds one and writes this page.

| network | what | deterministic | one sample | K samples | bytes |
|---|---|---|---|---|---|
"""


def index(cards: list[dict[str, Any]]) -> str:
    """The README.md of the folder of all networks."""
    return HEAD + "".join(f"| {' | '.join(_line(card))} |\n" for card in cards)


def _line(card: dict[str, Any]) -> list[str]:
    found = [card["modes"].get(mode, {}).get("accuracy") for mode in ("deterministic", "one sample", "K samples")]
    shown = ["" if value is None else f"{value:.2f}" for value in found]
    return [f"[{card['name']}]({card['name']}/README.md)", card["about"], *shown, f"{card['bytes']:,}"]
