# SPDX-License-Identifier: Apache-2.0
"""How long a key that failed waits before it is tried again: per key, doubling, capped.

Asked by the work queue only. The values are controller-runtime's: 5 ms at first, at most 1,000 s.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ItemBackoff(Generic[K]):
    """Exponential backoff that counts the failures of each key apart.

    Args:
        base: seconds after the first failure.
        cap: seconds that are never exceeded.
    """

    def __init__(self, base: float = 0.005, cap: float = 1000.0) -> None:
        self._base = base
        self._cap = cap
        self._failures: dict[K, int] = {}

    def next(self, key: K) -> float:
        """Seconds until the next try; counts a failure."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # Bounded, because a float overflows after some 1,000 failures.
        return min(self._cap, self._base * 2.0 ** min(failures, 64))

    def forget(self, key: K) -> None:
        """The key is well again: its next failure is a first one."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)
