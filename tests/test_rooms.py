"""The rooms of the house: imports go down only (docs/architecture.md)."""

import ast
from pathlib import Path

import pytest

import varnet

ROOT = Path(varnet.__file__).parent
ROOMS = (  # from the ground up; rooms of one line may not import each other
    ("errors", "__init__"),
    ("base",),
    ("nn",),
    ("data",),
    ("evaluation",),
    ("compress", "attack"),
    ("train",),
    ("runs",),
    ("launch",),
    ("linear", "rl"),
    ("report",),
    ("paper", "bench"),
    ("cli",),
)
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
LAZY = {name: f"varnet.{home}" for home, names in varnet.HOMES.items() for name in names}  # what `varnet` itself offers


def room_of(module: str) -> str:
    return [*module.split("."), "__init__"][1]


def imported(path: Path) -> set[str]:
    """The modules of varnet that a file imports, also inside of functions."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "varnet":
            found |= {f"varnet.{a.name}" if a.name in FLOOR else LAZY.get(a.name, "varnet") for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module)
    return {name for name in found if name.split(".")[0] == "varnet"}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path):
    room = room_of("varnet." + ".".join(path.relative_to(ROOT).with_suffix("").parts))
    up = [m for m in imported(path) if room_of(m) != room and FLOOR[room_of(m)] >= FLOOR[room] and room != "__init__"]
    assert not up, f"{path.relative_to(ROOT)} imports {', '.join(up)}"


@pytest.mark.parametrize("room", sorted(path.parent.name for path in ROOT.glob("*/__init__.py")))
def test_every_room_has_its_tests(room):
    assert list((Path(__file__).parent / room).glob("test_*.py")), f"tests/{room} has none"
