"""An extension of mkdocstrings: examples and tables of a docstring keep their lines, as the terminal shows them."""

import re

import griffe

TABLE = re.compile(r"[^\s>].*?\S {2,}\S")  # a name, two spaces or more, what it is


class Fences(griffe.Extension):
    """Puts a fence around examples (>>>) and around lines that are set like a table."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The same text with its blocks in fences."""
    out: list[str] = []
    block = ""  # the language of the fence that is open
    for line in text.splitlines():
        kind = kind_of(line, block)
        if kind != block:
            out += ["```"] * bool(block) + [""] + [f"```{kind}"] * bool(kind)
        out.append(line)
        block = kind
    return "\n".join([*out, *["```"] * bool(block)])


def kind_of(line: str, block: str) -> str:
    """Which fence a line belongs into; none for prose, and for what is set off already by four spaces."""
    if line.startswith(">>> "):
        return "pycon"
    if block == "pycon":
        return block if line.strip() else ""
    if TABLE.match(line) or (block == "text" and line.startswith("  ")):
        return "text"
    return ""
