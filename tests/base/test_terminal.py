"""Names that somebody else chose are shown as they are, in every encoding."""

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

import varnet
from varnet.base import terminal

HOSTILE = "a[/b] [red]x[/red] :bomb: \x1b[2J\nend"
SHOWN = r"a[/b] [red]x[/red] :bomb: \x1b[2J\nend"
ROOT = Path(varnet.__file__).parent


def test_a_table_shows_its_text_as_it_is():
    made = terminal.table({HOSTILE: "left", "n": "right"}, [[HOSTILE, "1"]], HOSTILE)
    out = io.StringIO()
    Console(file=out, width=200).print(made)
    assert out.getvalue().count(SHOWN) == 3 and "\x1b" not in out.getvalue()


def test_lines_are_shown_as_they_are(capsys):
    terminal.show([HOSTILE])
    assert capsys.readouterr().out == f"{SHOWN}\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_an_encoding_has_not_got_is_written_out(encoding, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    terminal.tolerate()
    print("± \udcff")
    stream.flush()
    assert rb"\udcff" in stream.buffer.getvalue()


def test_nothing_else_makes_a_table_or_reads_markup():
    for path in ROOT.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        columns = re.findall(r'TextColumn\("\{.*?\)', text)
        assert all("markup=False" in column for column in columns), path
        own = path == ROOT / "base" / "terminal.py"
        assert own or not re.search(r"from rich\.(table|text) import", re.sub(r"TYPE_CHECKING:\n( .*\n)+", "", text)), (
            path
        )
