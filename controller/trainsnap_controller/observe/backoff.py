# SPDX-License-Identifier: Apache-2.0
"""How long to wait before the next try against the API server.

Called by everything that keeps trying for ever (reflectors, the event recorder). The queue has its own, without
jitter: there each key has a delay of its own and the doubling is part of the queue's contract.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Backoff:
    """Doubling delays with full jitter: the n-th is evenly spread over 0 to ``min(cap, base * 2**n)`` seconds, so that
    many clients that lost the same server do not come back as one."""

    base: float = 0.8
    cap: float = 30.0
    uniform: Callable[[float, float], float] = random.uniform
    failures: int = field(default=0, init=False)

    def next(self) -> float:
        """Seconds to wait now; each call doubles the limit until `reset`."""
        limit = min(self.cap, self.base * 2.0 ** min(self.failures, 64))
        self.failures += 1
        return self.uniform(0.0, limit)

    def reset(self) -> None:
        self.failures = 0
