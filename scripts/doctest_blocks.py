"""An extension of mkdocstrings: `>>>` in a docstring is code, not a quotation inside of a quotation."""

import re

import griffe

BLOCK = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Puts a fence around every example."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring and ">>> " in obj.docstring.value:
            obj.docstring.value = BLOCK.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
