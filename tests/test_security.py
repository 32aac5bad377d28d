"""SECURITY.md: every promise names tests, and they are there."""

import re

from tests.composing import ROOT

TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_each_promise_names_tests_that_there_are():
    rows = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        promise, held_by = row.strip("| ").split(" | ")
        named = TEST.findall(held_by)
        assert named and len(named) == held_by.count("::"), promise
        for file, test in named:
            assert f"\ndef {test}(" in (ROOT / file).read_text(), f"{file}::{test}"
