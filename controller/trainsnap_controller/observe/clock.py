# SPDX-License-Identifier: Apache-2.0
"""Time, as an argument: everything that waits or measures takes a `Clock`, so that tests need not wait.

Durations and deadlines are always on the monotonic clock. The wall clock is for timestamps that others read, never for
a decision: it jumps.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """A pending callback."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Seconds that only go forward, waiting, and the time of day."""

    def now(self) -> float:
        """Seconds on the monotonic clock."""
        ...

    def wall(self) -> datetime:
        """The time of day, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run a callback on the event loop after so many seconds, unless cancelled before."""
        ...


class SystemClock:
    """The machine's clocks and the running event loop's timers."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


def micro_time(moment: datetime) -> str:
    """A timestamp as Kubernetes writes its MicroTime: RFC 3339, UTC, six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
