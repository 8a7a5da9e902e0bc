# SPDX-License-Identifier: Apache-2.0
"""Which errors are worth another attempt, and when; pure decisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsnap_api.transport import errors
from trainsnap_api.transport.retry import NO_RETRY, RetryPolicy

POLICY = RetryPolicy(attempts=3, base=1.0, cap=8.0, max_wait=20.0)


def delay(error: errors.TransportError, *, idempotent: bool = True, failures: int = 1, waited: float = 0.0) -> object:
    return POLICY.delay(error, failures=failures, waited=waited, idempotent=idempotent, random=lambda: 0.5)


@pytest.mark.parametrize(
    ("error", "when_idempotent", "otherwise"),
    [
        pytest.param(errors.TooManyRequests("x"), 0.5, 0.5, id="429"),
        pytest.param(errors.TooManyRequests("x", retry_after=3), 3.5, 3.5, id="429 with Retry-After"),
        pytest.param(errors.Unavailable("x", retry_after=0.0), 0.5, 0.5, id="503 with Retry-After 0"),
        pytest.param(errors.Unavailable("x"), 0.5, None, id="503"),
        pytest.param(errors.Unavailable("x", status=502), 0.5, None, id="502"),
        pytest.param(errors.ServerTimeout("x"), 0.5, None, id="504"),
        pytest.param(errors.ServerTimeout("x", status=500, retry_after=1.0), 1.5, None, id="500 ServerTimeout"),
        pytest.param(errors.InternalError("x"), None, None, id="500"),
        pytest.param(errors.Conflict("x", retry_after=1.0), None, None, id="409"),
        pytest.param(errors.NotFound("x"), None, None, id="404"),
        pytest.param(errors.Unauthorized("x"), None, None, id="401"),
        pytest.param(errors.Forbidden("x"), None, None, id="403"),
        pytest.param(errors.Expired("x"), None, None, id="410"),
        pytest.param(errors.Disconnected("x"), 0.5, None, id="broken after sending"),
        pytest.param(errors.Disconnected("x", sent=False), 0.5, 0.5, id="never sent"),
        pytest.param(errors.TimedOut("x"), 0.5, None, id="no answer in time"),
        pytest.param(errors.TimedOut("x", sent=False), 0.5, 0.5, id="no connection in time"),
        pytest.param(errors.MalformedResponse("x"), None, None, id="nonsense"),
        pytest.param(errors.ResponseTooLarge("x"), None, None, id="too large"),
        pytest.param(errors.TransportClosed("x", sent=False), None, None, id="closed"),
        pytest.param(errors.ConfigurationError("x"), None, None, id="configuration"),
    ],
)
def test_what_is_repeated(error: errors.TransportError, when_idempotent: object, otherwise: object) -> None:
    assert (delay(error), delay(error, idempotent=False)) == (when_idempotent, otherwise)


def test_attempts_are_bounded() -> None:
    error = errors.TooManyRequests("x")
    assert [delay(error, failures=n) for n in (1, 2, 3, 4)] == [0.5, 1.0, None, None]
    assert NO_RETRY.delay(error, failures=1, waited=0, idempotent=True, random=lambda: 0.0) is None


def test_waiting_is_bounded() -> None:
    assert delay(errors.TooManyRequests("x", retry_after=19)) == 19.5
    assert delay(errors.TooManyRequests("x", retry_after=20)) is None
    assert delay(errors.TooManyRequests("x", retry_after=1), waited=19) is None


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_backoff_stays_between_zero_and_the_cap(failures: int, random: float) -> None:
    assert 0 <= POLICY.backoff(failures, lambda: random) <= min(POLICY.cap, POLICY.base * 2.0 ** min(failures - 1, 30))


@given(st.floats(0, 19), st.floats(0, 1, exclude_max=True))
def test_never_earlier_than_the_server_asked(retry_after: float, random: float) -> None:
    error = errors.TooManyRequests("x", retry_after=retry_after)
    wait = POLICY.delay(error, failures=1, waited=0, idempotent=False, random=lambda: random)
    assert wait is not None
    assert wait >= retry_after
