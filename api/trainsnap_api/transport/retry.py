# SPDX-License-Identifier: Apache-2.0
"""Which failed attempts are made again, and after how long: a pure decision, asked by the caller after each failure.

The rules, and why:

* 429, and 503 with Retry-After: always. The server says that it did not act, and when to come back.
* 502, 503, 504, and any other 5xx with Retry-After: only calls that may safely be repeated.
* No answer at all: always when nothing was sent; else only calls that may safely be repeated. A create whose connection
  breaks may have created the object: a blind second POST would then answer 409 for our own object.
* Everything else is an answer, also a 500 that refuses what is in the object, and goes to the caller.

Nothing is slept here, and no clock is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainsnap_api.transport.errors import (
    ApiError,
    Disconnected,
    MalformedResponse,
    ObjectRefused,
    ResponseTooLarge,
    TooManyRequests,
    TransportClosed,
    TransportError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_TRANSIENT = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``attempts`` in all (1: never retry); backoff of full jitter from ``base`` seconds, doubling up to ``cap``;
    ``max_wait``: seconds that one call may spend waiting between its attempts."""

    attempts: int = 5
    base: float = 0.25
    cap: float = 10.0
    max_wait: float = 45.0

    def backoff(self, failures: int, random: Callable[[], float]) -> float:
        """Full jitter: uniform between 0 and the doubled base, so that callers which failed together part ways."""
        return random() * min(self.cap, self.base * 2.0 ** min(failures - 1, 30))

    def delay(
        self, error: TransportError, *, failures: int, waited: float, idempotent: bool, random: Callable[[], float]
    ) -> float | None:
        """Seconds to wait before the next attempt after ``failures`` failed ones; None: no more attempts."""
        if failures >= self.attempts or not _repeatable(error, idempotent):
            return None
        wait = self.backoff(failures, random)
        if isinstance(error, ApiError) and error.retry_after is not None:
            # Never earlier than asked; the jitter on top keeps the callers from returning in one burst.
            wait += error.retry_after
        return wait if waited + wait <= self.max_wait else None


NO_RETRY = RetryPolicy(attempts=1)


def _repeatable(error: TransportError, idempotent: bool) -> bool:
    match error:
        case TooManyRequests():
            return True
        case ObjectRefused():
            return False
        case ApiError(status=503, retry_after=float()):
            return True
        case ApiError(status=status, retry_after=retry_after):
            return idempotent and (status in _TRANSIENT or (status >= 500 and retry_after is not None))
        case MalformedResponse() | ResponseTooLarge() | TransportClosed():
            return False
        case Disconnected(sent=sent):
            return idempotent or not sent
        case _:
            return False
