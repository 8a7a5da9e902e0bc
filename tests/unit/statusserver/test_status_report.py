# SPDX-License-Identifier: Apache-2.0
"""What a body means: types are checked here, values are the schema's business."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsnap_controller.statusserver.report import NotDecodable, decode

NOW = "2026-05-06T07:08:09Z"


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param("{}", None, id="an empty object"),
        pytest.param("null", None, id="null"),
        pytest.param('{"trainerStatus": null}', None, id="a null report"),
        pytest.param('{"other": [1, {}]}', None, id="unknown fields only"),
        pytest.param('{"trainerStatus": {}}', {}, id="an empty report is a report"),
        pytest.param('{"trainerStatus": {"progressPercentage": 0}}', {"progressPercentage": 0}, id="zero is kept"),
        pytest.param(
            '{"trainerStatus": {"progressPercentage": 150}}', {"progressPercentage": 150}, id="range unchecked"
        ),
        pytest.param('{"trainerStatus": {"metrics": []}}', {}, id="an empty list is no list"),
        pytest.param('{"trainerStatus": {"metrics": null, "x": 1}}', {}, id="null and unknown fields of the report"),
        pytest.param(
            '{"trainerStatus": {"metrics": [{"name": "loss", "value": "0.1", "x": 1}, {}, null]}}',
            {"metrics": [{"name": "loss", "value": "0.1"}, {"name": "", "value": ""}, {"name": "", "value": ""}]},
            id="metrics without name or value",
        ),
        pytest.param(' \n{"trainerStatus": {}} {"trainerStatus": 1} rubbish', {}, id="only the first value counts"),
        pytest.param(
            '{"trainerStatus": {"metrics": [{"name": "\\ud800", "value": "\\ud83d\\ude00"}]}}',
            {"metrics": [{"name": "\ufffd", "value": "\U0001f600"}]},
            id="half a surrogate pair",
        ),
    ],
)
def test_a_body_is_read(body: str, want: Any) -> None:
    assert decode(body.encode()) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (NOW, NOW),
        ("2026-05-06T07:08:09.123456789Z", NOW),
        ("2026-05-06T09:08:09+02:00", NOW),
        ("2026-05-06T00:08:09.5-07:00", NOW),
    ],
)
def test_times_come_out_in_utc_and_whole_seconds(text: str, want: str) -> None:
    body = json.dumps({"trainerStatus": {"lastUpdatedTime": text}}).encode()
    assert decode(body) == {"lastUpdatedTime": want}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no json", id="no JSON"),
        pytest.param(b'{"trainerStatus": {}', id="half an object"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'"text"', id="a string"),
        pytest.param(b"[" * 60000, id="very deep"),
        pytest.param(b"1" * 60000, id="very long number"),
        pytest.param(b'{"trainerStatus": []}', id="report is a list"),
        pytest.param(b'{"trainerStatus": {"progressPercentage": "50"}}', id="number as text"),
        pytest.param(b'{"trainerStatus": {"progressPercentage": 50.0}}', id="fraction"),
        pytest.param(b'{"trainerStatus": {"progressPercentage": 5e1}}', id="exponent"),
        pytest.param(b'{"trainerStatus": {"progressPercentage": true}}', id="boolean"),
        pytest.param(b'{"trainerStatus": {"estimatedRemainingSeconds": 2147483648}}', id="beyond 32 bits"),
        pytest.param(b'{"trainerStatus": {"estimatedRemainingSeconds": NaN}}', id="not a number"),
        pytest.param(b'{"trainerStatus": {"metrics": {}}}', id="metrics are an object"),
        pytest.param(b'{"trainerStatus": {"metrics": [1]}}', id="a metric is a number"),
        pytest.param(b'{"trainerStatus": {"metrics": [{"name": "a", "value": 1}]}}', id="a metric's value is a number"),
        *(
            pytest.param(json.dumps({"trainerStatus": {"lastUpdatedTime": text}}).encode(), id=f"time {text!r}")
            for text in ("", "now", "2026-05-06", "2026-05-06T07:08:09", "2026-13-01T00:00:00Z", 1,
                         "2026-05-06 07:08:09Z", "2026-05-06T07:08:60Z",
                         "0001-01-01T00:00:00+10:00", "2026-05-06t07:08:09z")
        ),
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(body: bytes) -> None:
    with pytest.raises(NotDecodable):
        decode(body)


@given(st.binary(max_size=200))
def test_no_bytes_break_it(body: bytes) -> None:
    try:
        decode(body)
    except NotDecodable as error:
        assert str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(("progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime", "x"))


@given(st.dictionaries(names, json_values))
def test_what_is_read_can_be_sent_on(report: dict[str, Any]) -> None:
    try:
        read = decode(json.dumps({"trainerStatus": report}).encode())
    except NotDecodable:
        return
    assert read is not None
    assert decode(json.dumps({"trainerStatus": read}, ensure_ascii=False).encode()) == read
