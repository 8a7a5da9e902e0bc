# SPDX-License-Identifier: Apache-2.0
"""The client-side rate limit: a token bucket in the manner of client-go's ``qps`` and ``burst``.

One per transport, asked before every attempt. It never drops a call, it delays it; the server's own 429 still counts.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class TokenBucket:
    """Lets ``burst`` calls through at once and ``qps`` a second in the long run; ``qps`` None or <= 0 means no limit.

    Callers are served in the order in which they asked: each takes a token that may lie in the future and sleeps until
    then. A caller that is cancelled while it sleeps gives its token back.
    """

    def __init__(
        self,
        qps: float | None,
        burst: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._qps = qps if qps is not None and qps > 0 else None
        self._burst = max(1, burst or 0)
        self._clock = clock
        self._sleep = sleep
        self._tokens = float(self._burst)
        self._updated = clock()

    def _reserve(self) -> float:
        """Takes one token and returns the seconds until it is really there."""
        assert self._qps is not None
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._updated) * self._qps)
        self._updated = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)

    async def acquire(self) -> float:
        """Waits for a token; returns the seconds waited."""
        if self._qps is None:
            return 0.0
        wait = self._reserve()
        if wait > 0:
            try:
                await self._sleep(wait)
            except asyncio.CancelledError:
                self._tokens += 1
                raise
        return wait
