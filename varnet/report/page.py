"""One HTML page with tables and figures in it, for any browser and without other files."""

import base64
import html

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; white-space: normal; }
thead th { border-bottom: 2px solid #888; }
img { max-width: 100%; height: auto; }
p.note { color: #555; font-size: 0.9rem; }
"""


def page(title: str, note: str, sections: list[tuple[str, str]]) -> str:
    """The page of these sections, each (heading, HTML)."""
    body = "\n".join(f"<h2>{html.escape(heading)}</h2>\n{content}" for heading, content in sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{html.escape(title)}</h1>\n"
        f'<p class="note">{html.escape(note)}</p>\n'
        f"{body}\n</body></html>\n"
    )


def image(png: bytes, caption: str) -> str:
    """A picture inside of the page."""
    data = base64.b64encode(png).decode()
    return f'<img alt="{html.escape(caption)}" src="data:image/png;base64,{data}">'
