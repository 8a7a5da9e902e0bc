# SPDX-License-Identifier: Apache-2.0
"""One request budget for two connections: how many requests a second ``trainsnap migrate`` sends altogether."""

from __future__ import annotations

from typing import Any, Final

from trainsnap_api.transport import Transport
from trainsnap_api.transport.limiter import TokenBucket

_COUNTED: Final = frozenset({"get", "create", "apply", "merge_patch", "delete"})


class Budgeted:
    """A transport whose requests draw on a budget that it may share. Pages of a list are not counted: they are few."""

    def __init__(self, transport: Transport, budget: TokenBucket) -> None:
        self._transport = transport
        self._budget = budget

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._transport, name)
        if name not in _COUNTED:
            return found

        async def counted(*args: Any, **options: Any) -> Any:
            await self._budget.acquire()
            return await found(*args, **options)

        return counted
