"""Fill the tables of RESULTS.md and README.md from docs/results/NAME.json: python scripts/publish.py [--check]

A table stands between <!-- table: NAME --> and <!-- end -->; `rows=A;B` after the name takes only rows that begin so,
`metrics=a;b` only those metrics, `scale=full` only that scale. The text around it is written by hand. --check changes
nothing and fails if a table is not what the JSON says.
"""

import json
import re
import sys
from pathlib import Path

from varnet.runs.composing import PACKAGE

ROOT = PACKAGE.parent  # of the checkout
PAGES = ("RESULTS.md", "README.md")
MARK = re.compile(r"(<!-- table: (?P<name>\w+)(?P<options>[^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(name: str, options: str, folder: Path) -> str:
    from varnet.report.tables import markdown

    path = folder / f"{name}.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    chosen = dict(part.split("=", 1) for part in re.findall(r"\w+=[^=]+?(?=\s+\w+=|\s*$)", options))
    if "rows" in chosen:
        rows = [row for row in rows if row["row"].startswith(tuple(chosen["rows"].split(";")))]
    if "metrics" in chosen:
        rows = [row for row in rows if row["metric"] in chosen["metrics"].split(";")]
    if "scale" in chosen:
        rows = [row for row in rows if row["scale"] == chosen["scale"]]
    return markdown(rows) if rows else "*Not run yet.*\n"


def filled(text: str, folder: Path) -> str:
    return MARK.sub(lambda m: m[1] + "\n" + table(m["name"], m["options"], folder) + "\n" + m[4], text)


def main(arguments: list[str]) -> int:
    folder, stale = ROOT / "docs" / "results", []
    for name in PAGES:
        old = (ROOT / name).read_text()
        new = filled(old, folder)
        if new != old:
            stale.append(name)
            if "--check" not in arguments:
                (ROOT / name).write_text(new)
    if stale and "--check" in arguments:
        print(f"error: {', '.join(stale)} differs from docs/results: run python scripts/publish.py", file=sys.stderr)
        return 1
    return 0
