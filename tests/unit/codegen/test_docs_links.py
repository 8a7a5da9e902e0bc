# SPDX-License-Identifier: Apache-2.0
"""Hand-written documentation points at things that exist: pages, files, tests, make targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs") for page in PAGES if "docs" in page.parts and page.name != "README.md"]
    assert [str(page) for page in pages if page.parts[0] != "decisions" and f"({page})" not in index] == []


def test_tests_that_are_named_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "known-faults.md").read_text(encoding="utf-8"))
    assert len(named) > 100
    missing = []
    for file, name in named:
        path = TESTS / file
        if not path.exists() or not re.search(rf"(def|class) {name}\b", path.read_text(encoding="utf-8")):
            missing.append(f"{file}::{name}")
    assert missing == []


def test_every_known_fault_has_an_answer() -> None:
    rows = re.findall(r"^\| ([A-E]\d\d) \| (.+) \| (.+) \|$", (ROOT / "docs" / "known-faults.md").read_text(), re.M)
    assert len({number for number, _, _ in rows}) == len(rows) == 101
    assert [number for number, _, answer in rows if not answer.strip()] == []


def test_make_targets_that_are_named_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z][a-z0-9-]*)", (ROOT / "README.md").read_text(encoding="utf-8")))
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert named
    assert named - targets == set()


def test_files_that_are_named_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:api|controller|codegen|crds|deploy|docs|tests|tools)/[\w./-]*)`", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
