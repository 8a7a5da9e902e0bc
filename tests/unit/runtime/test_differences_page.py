# SPDX-License-Identifier: Apache-2.0
"""The page that lists every difference from the reference: each row is complete and names a test that exists."""

from __future__ import annotations

import re

import pytest

from support.offline_golden import ROOT

PAGE = (ROOT / "docs" / "differences.md").read_text()
ROWS = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "| test |" not in line]
TEST = re.compile(r"`(test_[a-z0-9_]+)`")


def test_every_row_says_what_why_and_how_it_is_known() -> None:
    assert len(ROWS) > 60
    assert [row for row in ROWS if len(row) != 5 or not all(cell.strip() for cell in row)] == []
    assert [row[0] for row in ROWS if not TEST.fullmatch(row[4].strip())] == []
    names = [row[0].strip() for row in ROWS]
    assert len(set(names)) == len(names), "each difference is listed once"


@pytest.fixture(scope="module")
def tests() -> set[str]:
    """The names of all tests."""
    found = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
    return {name for file in (ROOT / "tests").rglob("test_*.py") for name in found.findall(file.read_text())}


def test_every_test_that_is_named_exists(tests: set[str]) -> None:
    assert set(TEST.findall(PAGE)) - tests == set()
