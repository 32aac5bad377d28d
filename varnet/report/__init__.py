"""Run folders -> tables and pages. A result row is defined once, in row.py.

row.py        Row: a number of ours beside a published one; JSON
verdict.py    does a row say what was published: tests of equivalence; pooling.py: runs of two precisions in one row
tables.py     finished runs -> rows; Markdown and HTML; transposed.py: a column for each row
marks.py      tables and verdicts between the marks of a document (scripts/publish.py)
groups.py     runs that differ in their seed alone, their means and curves (scripts/report.py)
analysis.py   everything that is measured on one run (scripts/evaluate.py)
page.py       one HTML page with tables and figures in it
"""

from varnet.report.row import Row, as_json, read
from varnet.report.tables import Published, as_html, markdown, rows_of

__all__ = ["Published", "Row", "as_html", "as_json", "markdown", "read", "rows_of"]
