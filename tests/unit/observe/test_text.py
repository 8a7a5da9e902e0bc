# SPDX-License-Identifier: Apache-2.0
"""Texts cut by bytes, at characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsnap_controller.observe import text


@pytest.mark.parametrize(
    ("given_text", "limit", "want"),
    [
        pytest.param("short", 10, "short", id="fits"),
        pytest.param("exactly10!", 10, "exactly10!", id="fits exactly"),
        pytest.param("eleven char", 10, "eleven ...", id="one too many"),
        pytest.param("ääääää", 11, "äää ...", id="two bytes a character"),
        pytest.param("a\N{GRINNING FACE}bcdefghij", 8, "a ...", id="not in the middle of a character"),
        pytest.param("lone \ud800 surrogate", 100, "lone ? surrogate", id="what JSON cannot carry"),
    ],
)
def test_truncate(given_text: str, limit: int, want: str) -> None:
    assert text.truncate(given_text, limit) == want


@given(st.text(), st.integers(4, 40))
def test_the_limit_is_kept_and_the_beginning_too(given_text: str, limit: int) -> None:
    got = text.truncate(given_text, limit)
    assert len(got.encode()) <= limit
    assert got == given_text or given_text.startswith(got.removesuffix(" ..."))


def test_the_limits_of_kubernetes() -> None:
    assert len(text.event_note("x" * 5000)) == 1024
    assert len(text.condition_message("x" * 50000)) == 32768


def test_a_failure_is_cut_as_the_reference_cuts_it() -> None:
    assert text.failure_note("failed: ", "x" * 950) == "failed: " + "x" * 950
    assert text.failure_note("failed: ", "x" * 951) == "failed: " + "x" * 950 + " ..."
    assert len(text.failure_note("failed: ", "\N{GRINNING FACE}" * 951).encode()) <= 1024
