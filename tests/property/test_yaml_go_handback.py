# SPDX-License-Identifier: Apache-2.0
"""What is written for the reference is read by its library, and by us, as what it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.golib import GoYaml, go_yaml
from trainsnap_controller.migration import yaml_go
from trainsnap_controller.migration.handback import yaml_text

CURIOUS = ["=", "<<", "1_000", "12:30", "0o777", "yes", "on", "y", "~", "null", "", "true", ".inf", "a: b", "- a", "#",
           "\u0085", "\ufeff", "\x7f", "\x00", "\n", "a\nb\n", "\U0001f600", "'", '"', "\\", "k" * 999]  # fmt: skip
TEXTS = st.one_of(st.sampled_from(CURIOUS), st.text(max_size=20))
# Whole ones come back as integers: JSON does not tell them apart, nor does the schema.
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer())
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), FLOATS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=15,
)


@pytest.fixture(scope="module")
def go() -> Iterator[GoYaml]:
    with go_yaml() as library:
        yield library


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_both_read_what_is_written(go: GoYaml, value: Any) -> None:
    text = yaml_text(value)
    assert same(go.read(text), value)
    assert same(yaml_go.read(text).value, value)


def same(one: Any, other: Any) -> bool:
    """Equal also by type: to Python 1, True and 1.0 are the same."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
