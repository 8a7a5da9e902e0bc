# SPDX-License-Identifier: Apache-2.0
"""Samples in the hand-written pages of the documentation, for tests that try what a page shows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of that language in a page, which is named by its path in the project."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
