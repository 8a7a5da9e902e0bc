# SPDX-License-Identifier: Apache-2.0
"""``legacyBefore`` as it is written: always compared and shown in UTC, and refused when it is ambiguous."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trainsnap_controller.migration.state import body, moment_of, parse


@pytest.mark.parametrize("text", ["2026-01-05T10:00:00Z", "2026-01-05T12:00:00+02:00", "2026-01-05T10:00:00.000Z"])
def test_a_moment_is_shown_in_utc(text: str) -> None:
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    moment = parse({"metadata": metadata, "data": {"legacyBefore": text}})
    assert moment == datetime(2026, 1, 5, 10, tzinfo=UTC)
    assert f"{moment:%H:%M}" == "10:00"
    assert body(moment) == {"data": {"legacyBefore": "2026-01-05T10:00:00Z"}}


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-01-05", "2026-01-05T10:00:00", "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"],
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        moment_of(text)
