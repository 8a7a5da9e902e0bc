# SPDX-License-Identifier: Apache-2.0
"""From an answer to a typed error: by reason, by status, and for bodies that are no Status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsnap_api.transport import RetryPolicy, answers, errors


def build(status: int, body: object, headers: dict[str, str] | None = None) -> errors.ApiError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return answers.from_response(status, headers or {}, content, method="GET", path="/p", wall_clock=lambda: 1000.0)


@pytest.mark.parametrize(
    ("status", "reason", "want"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.KindNotServed),
        (405, "MethodNotAllowed", errors.ApiError),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (409, "", errors.Conflict),
        (410, "Gone", errors.Expired),
        (410, "Expired", errors.Expired),
        (413, "RequestEntityTooLarge", errors.TooLarge),
        (415, "UnsupportedMediaType", errors.ApiError),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.InternalError),
        (500, "", errors.InternalError),
        (500, "ServerTimeout", errors.ServerTimeout),
        (503, "ServiceUnavailable", errors.Unavailable),
        (502, "", errors.Unavailable),
        (504, "Timeout", errors.ServerTimeout),
        (500, "Expired", errors.Expired),
        (507, "Odd", errors.ApiError),
    ],
)
def test_classes(status: int, reason: str, want: type[errors.ApiError]) -> None:
    error = build(status, {"kind": "Status", "reason": reason, "message": "m"})
    assert type(error) is want
    assert (error.status, str(error)) == (status, "m" if status != 404 else "the server does not serve /p")
    assert error.reason == (reason or want.default_reason)


@pytest.mark.parametrize("message", ["etcdserver: request is too large", "rpc: trying to send message larger than max"])
def test_the_storages_limit_is_too_large(message: str) -> None:
    error = build(500, {"reason": "InternalError", "message": message})
    assert isinstance(error, errors.TooLarge)
    assert error.status == 500


NOT_TYPED = "failed to create typed patch object (ns/a; trainer.kubeflow.org/v1alpha1, Kind=TrainJob): "
PATCH = 'is invalid: patch: Invalid value: "{\\"spec\\": 1}": '


@pytest.mark.parametrize(
    ("status", "message", "fields", "want"),
    [
        pytest.param(
            400,
            'TrainJob cannot be handled: strict decoding error: unknown field "spec.a", unknown field "b"',
            ("spec.a", "b"),
            'TrainJob cannot be handled: strict decoding error: unknown field "spec.a", unknown field "b"',
            id="create",
        ),
        pytest.param(
            422,
            PATCH + 'strict decoding error: unknown field "spec.a"',
            ("spec.a",),
            'strict decoding error: unknown field "spec.a"',
            id="patch, without the object that the server repeats",
        ),
        pytest.param(
            500,
            NOT_TYPED + '.spec.jobs[name="a b"].x: field not declared in schema',
            ('spec.jobs[name="a b"].x',),
            NOT_TYPED + '.spec.jobs[name="a b"].x: field not declared in schema',
            id="apply",
        ),
    ],
)
def test_unknown_fields_by_every_way_to_write(status: int, message: str, fields: tuple[str, ...], want: str) -> None:
    causes = [{"field": "patch", "reason": "R", "message": message}] if status == 422 else []
    error = build(status, {"message": message, "reason": "Whatever", "details": {"causes": causes}})
    assert isinstance(error, errors.UnknownFields)
    assert isinstance(error, errors.ObjectRefused)
    assert (error.fields, error.message, error.causes) == (fields, want, ())
    assert (error.status, error.reason) == (status, "Whatever")


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("expected boolean, got &{yes}", "FieldValueTypeInvalid"),
        ('duplicate entries for key [name="A"]', "FieldValueDuplicate"),
    ],
)
def test_an_apply_of_wrong_types_is_invalid_and_not_an_internal_error(problem: str, reason: str) -> None:
    error = build(500, {"reason": "InternalError", "message": f"{NOT_TYPED}.spec.trainer.env: {problem}"})
    assert isinstance(error, errors.Invalid)
    assert error.causes == (errors.Cause("spec.trainer.env", reason, problem),)
    assert error.status == 500


def test_a_refused_object_is_not_sent_again_whatever_its_number() -> None:
    error = build(500, {"message": f"{NOT_TYPED}.spec.a: expected boolean, got &{{yes}}"}, {"retry-after": "1"})
    assert error.retry_after == 1.0
    assert RetryPolicy().delay(error, failures=1, waited=0.0, idempotent=True, random=lambda: 0.5) is None


@pytest.mark.parametrize(
    ("header", "want"),
    [
        (None, None),
        ("5", 5.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        ("Thu, 01 Jan 1970 00:17:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
    ],
)
def test_retry_after_header(header: str | None, want: float | None) -> None:
    assert answers.parse_retry_after(header, lambda: 1000.0) == want


@pytest.mark.parametrize(
    ("headers", "details", "want"),
    [
        ({"retry-after": "2"}, {"retryAfterSeconds": 9}, 2.0),
        ({}, {"retryAfterSeconds": 9}, 9.0),
        ({}, {"retryAfterSeconds": 0}, None),
        ({}, {"retryAfterSeconds": "9"}, None),
        ({}, None, None),
    ],
)
def test_retry_after_of_header_and_status(headers: dict[str, str], details: Any, want: float | None) -> None:
    assert build(429, {"details": details}, headers).retry_after == want


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"404 page not found\n", errors.KindNotServed, id="the mux, and groups of CRDs"),
        pytest.param(
            {"kind": "Status", "reason": "NotFound", "details": {}}, errors.KindNotServed, id="built-in groups"
        ),
        pytest.param({"kind": "Status", "reason": "NotFound"}, errors.KindNotServed, id="no details"),
        pytest.param({"reason": "NotFound", "details": {"name": "a", "kind": "jobs"}}, errors.NotFound, id="an object"),
        pytest.param({"details": {"name": "ns", "kind": "namespaces"}}, errors.NotFound, id="its namespace"),
    ],
)
def test_a_missing_kind_is_told_from_a_missing_object(body: object, want: type[errors.ApiError]) -> None:
    error = build(404, body)
    assert type(error) is want
    assert issubclass(want, errors.NotFound)
    assert error.reason == "NotFound"


@pytest.mark.parametrize(
    "body", [b"default backend - 404", b"<html>404 Not Found</html>", b"", b"404 page not found: x"]
)
def test_a_404_of_something_in_front_says_nothing_about_the_object(body: bytes) -> None:
    """Taken for absence, it would have a job start from another content, or a list end early."""
    error = build(404, body)
    assert type(error) is errors.Unavailable
    assert error.status == 404
    assert "the server answered 404 to GET /p" in str(error)


@pytest.mark.parametrize("seconds", [10**400, 10**9, -(10**400), True, float("1e300")])
def test_waits_that_cannot_be_are_none(seconds: Any) -> None:
    assert build(429, {"details": {"retryAfterSeconds": seconds}}).retry_after in (None, 1.0)


def test_long_bodies_are_cut() -> None:
    assert len(str(build(500, b"x" * 100_000))) < 400


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
STATUS_LIKE = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("kind", "reason", "message", "details", "code", "status"), JSON_VALUES)
)


@given(st.integers(300, 599), st.binary(max_size=200) | STATUS_LIKE.map(lambda body: json.dumps(body).encode()))
def test_any_body_gives_a_one_line_error(status: int, content: bytes) -> None:
    error = answers.from_response(status, {}, content, method="GET", path="/p")
    assert error.status == status
    assert str(error)
    assert repr(error)


@given(JSON_VALUES | STATUS_LIKE)
def test_any_error_event_gives_an_error(body: object) -> None:
    assert isinstance(answers.from_status(body, method="WATCH", path="/p"), errors.ApiError)
