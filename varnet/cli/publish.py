"""Take new runs into docs/results and fill the marks of the documents from it:

python scripts/publish.py [from=FOLDER [TARGET...]] [--tables] [--check]

from=FOLDER   what reproduce.py wrote there (outputs/reproduction): records of runs, pictures, numbers; of the targets
              that are named, or of all that are there. Tables are built anew from all records of docs/results. What
              tells no commit, or one with changes (-dirty), is refused, and nothing is taken.
--tables      build the tables anew from the records of docs/results, first: after a change of their rows
--check       change nothing, and fail if a mark does not say what docs/results says
network=NAME  something else: store a run as a trained network; publish.py network= --help tells more

Marks stand in README.md, RESULTS.md and the pages of docs/results (varnet/report/marks.py says which there are); the
text around them is written by hand, and nothing else writes to these pages.
"""

from pathlib import Path

from varnet.base.files import write_atomically
from varnet.base.terminal import tolerate
from varnet.cli import publish_network
from varnet.errors import ConfigError
from varnet.launch.ending import refused
from varnet.runs.composing import PACKAGE

ROOT = PACKAGE.parent  # of the checkout


def pages(root: Path) -> list[Path]:
    """The documents that have marks."""
    from varnet.report.marks import has_marks

    found = [root / "README.md", root / "RESULTS.md", *sorted((root / "docs" / "results").glob("*.md"))]
    return [page for page in found if page.is_file() and has_marks(page.read_text(encoding="utf-8"))]


def stale(root: Path) -> dict[Path, str]:
    """The pages whose marks are to be filled anew, with the text that they should have."""
    from varnet.report.marks import filled

    texts = {page: filled(page.read_text(encoding="utf-8"), root / "docs" / "results") for page in pages(root)}
    return {page: text for page, text in texts.items() if text != page.read_text(encoding="utf-8")}


def parse(arguments: list[str]) -> tuple[Path | None, list[str]]:
    """The folder that new runs are taken from, and the targets that are asked for."""
    from varnet.paper.reproduction import TARGETS

    source, names = None, []
    for argument in (a for a in arguments if a not in ("--check", "--tables")):
        key, equals, value = argument.partition("=")
        if equals and (key != "from" or not value):
            raise ConfigError("is invalid: use from=FOLDER", key, value)
        if not equals and argument not in TARGETS:
            raise ConfigError(f"{argument} is not known: choose from {', '.join(TARGETS)}")
        source = Path(value) if equals else source
        names += [] if equals else [argument]
    if source is None and names:
        raise ConfigError(f"say where {names[0]} is taken from: from=FOLDER")
    if "--check" in arguments and (source is not None or "--tables" in arguments):
        raise ConfigError(f"--check changes nothing: leave it out, or {'from=FOLDER' if source else '--tables'}")
    return source, names or list(TARGETS)


def main(arguments: list[str], root: Path = ROOT) -> int:
    help_wanted = "-h" in arguments or "--help" in arguments
    if publish_network.asked(arguments) and not help_wanted:
        return publish_network.main(arguments, root)
    if help_wanted:
        print(publish_network.__doc__ if publish_network.asked(arguments) else __doc__, end="")
        return 0
    tolerate()
    try:
        source, names = parse(arguments)
        if source is not None:
            from varnet.paper.intake import take
            from varnet.paper.reproduction import TARGETS

            taken = take(names, TARGETS, source, root / "docs" / "results")
            print(f"taken: {', '.join(taken)}")
        if "--tables" in arguments:
            from varnet.paper.intake import rebuild
            from varnet.paper.reproduction import TARGETS

            rebuild(TARGETS, root / "docs" / "results")
        found = stale(root)
    except (ValueError, OSError) as error:  # a ConfigError is a ValueError
        return refused(error)
    if "--check" not in arguments:
        for page, text in found.items():
            write_atomically(page, text)
        return 0
    if found:
        differing = [str(page.relative_to(root)) for page in found]
        return refused(f"{', '.join(differing)} differs from docs/results: run python scripts/publish.py", 1)
    return 0
