"""What mkdocs.yml cannot say: pages from the top of the checkout, links between both places, formulas without a script.

MkDocs calls these functions while `make docs` builds the site.
"""

import html
import posixpath
import re
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOP = ("RESULTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "LOG.md")  # pages that lie beside docs/
FURTHER = "Further pages"  # a section for pages of docs/ that the nav does not name
LINK = re.compile(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)")
STYLES = {"script": "SCRIPT", "double-struck": "DOUBLE-STRUCK"}
VARIANT = re.compile(rf'<mi mathvariant="({"|".join(STYLES)})">([A-Z])</mi>')
TILDE = ("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config):
    """Name the pages that nobody has put into the nav."""
    named = set(named_in(config.nav))
    found = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    if left := [page for page in found if page not in named]:
        config.nav.append({FURTHER: left})
    return config


def named_in(nav):
    """Pages of a nav, which is a page, a section, or a list of these."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in named_in(part)]


def on_files(files, config):
    """Take the pages from the top of the checkout along."""
    from mkdocs.structure.files import File

    for name in TOP:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown, page, **_):
    """Links as the site has the pages, which lie in other folders there than in the checkout."""
    own = page.file.src_uri
    return LINK.sub(lambda found: f"]({moved(found[1], own)}{found[2] or ''})", markdown)


def in_checkout(page: str) -> str:
    return page if page in TOP else f"docs/{page}"


def moved(link: str, own: str) -> str:
    """A link of a page in the checkout -> the same in the site; what has no place there is left as it is."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(in_checkout(own)), link))
    place = target if target in TOP else target.removeprefix("docs/")
    if place == target and target not in TOP:
        return link
    return posixpath.relpath(place, posixpath.dirname(own) or ".")


def on_page_content(html_of_page, **_):
    """Formulas as MathML, which browsers draw by themselves."""
    return FORMULA.sub(lambda f: mathml(f[2], "inline" if f[1] == "span" else "block"), html_of_page)


def mathml(formula: str, display: str) -> str:
    from latex2mathml.converter import convert

    return readable(convert(html.unescape(formula).strip(), display=display))


def readable(formula: str) -> str:
    """Letters in a style of their own as characters, as browsers know no other way; a relation for its tilde."""
    return VARIANT.sub(lambda found: f"<mi>{letter(STYLES[found[1]], found[2])}</mi>", formula).replace(*TILDE)


def letter(style: str, capital: str) -> str:
    """A capital of a style; some have had a name longer than the others."""
    try:
        return unicodedata.lookup(f"MATHEMATICAL {style} CAPITAL {capital}")
    except KeyError:
        return unicodedata.lookup(f"{style} CAPITAL {capital}")
