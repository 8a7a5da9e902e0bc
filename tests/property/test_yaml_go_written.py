# SPDX-License-Identifier: Apache-2.0
"""Whatever JSON the Go library writes as YAML is read as the library itself reads it: every string, number and key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from support.golib import GoYaml, go_yaml
from trainsnap_controller.migration import yaml_go

CURIOUS = ["=", "<<", "1_000", "12:30", "0777", "0o777", "0x1F", "1e3", ".inf", "-.INF", "yes", "No", "on", "off", "y",
           "~", "null", "", " ", "2001-12-14", "2001-12-14t21:59:43.10-05:00", "0b101", "+1", "-", "- a", "? b", ": c",
           "#x", "a #b", "a: b", "!x", "&a", "*a", "%", "@", "`", "|", ">", "'", '"', "{}", "[]", "a\nb", "\n", "a\n",
           "\n\na", "  a\n b", "\ta", "a\t\n", "---", "--- a", "...", "\u0085", "\u2028x", "\ufeff", "\x7f", "\x00",
           "é" * 90, "x" * 200, "word " * 40, "\U0001f600", "k\r\nv", "true", "1.0", "-0", "6.02e23", "08"]  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(CURIOUS), st.text(max_size=30), st.text("a:-#{}[],&*!|>'\"%@`?~ \n\t01_.eE+", max_size=12)
)
NUMBERS = st.one_of(
    st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False, allow_infinity=False), st.integers(-100, 100)
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def go() -> Iterator[GoYaml]:
    with go_yaml() as library:
        yield library


def plain(value: Any) -> Any:
    """A value with its types visible, since in Python 1 == 1.0 == True."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case float():
            return ("number", value)
        case bool() | None | str():
            return value
        case _:
            return ("number", float(value)) if abs(value) > 1 << 53 else ("number", value)


def written(go: GoYaml, value: Any) -> str:
    """The library's YAML; it reads JSON as YAML first and refuses what YAML has no character for, such as DEL."""
    try:
        return go.write(value)
    except ValueError:
        reject()


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_what_the_library_writes_is_read_as_the_library_reads_it(go: GoYaml, value: Any) -> None:
    text = written(go, value)
    try:
        want = go.read(text)
    except ValueError:
        reject()  # what even the library cannot read again: a key "<<", for one
    assert plain(yaml_go.read(text).value) == plain(want)
    assert plain(yaml_go.read_thoroughly(text.encode(), yaml_go.Limits()).value) == plain(want)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS)
def test_every_string_comes_back_as_the_string_that_it_was(go: GoYaml, text: str) -> None:
    # The library reads its own JSON as YAML before it writes: there NEL is a line break, and DEL is refused.
    want = {"env": [{"name": "A", "value": text.replace("\u0085", "")}]}
    assert yaml_go.read(written(go, want)).value == want
