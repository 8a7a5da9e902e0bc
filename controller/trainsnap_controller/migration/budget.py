# SPDX-License-Identifier: Apache-2.0
"""One request budget for two connections: how many requests a second ``trainsnap migrate`` sends altogether."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from trainsnap_api.transport import RawPage, Transport
from trainsnap_api.transport.limiter import TokenBucket

_COUNTED: Final = frozenset({"get", "create", "apply", "merge_patch", "delete"})


class Budgeted:
    """A transport whose requests draw on a budget that it may share."""

    def __init__(self, transport: Transport, budget: TokenBucket) -> None:
        self._transport = transport
        self._budget = budget

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._transport, name)
        if name == "pages":
            return functools.partial(self._pages, found)
        if name not in _COUNTED:
            return found

        async def counted(*args: Any, **options: Any) -> Any:
            await self._budget.acquire()
            return await found(*args, **options)

        return counted

    async def _pages(self, pages: Any, *args: Any, **options: Any) -> AsyncGenerator[RawPage, None]:
        """A list, each of whose pages is a request."""
        async with aclosing(pages(*args, **options)) as stream:
            await self._budget.acquire()
            async for page in stream:
                yield page
                await self._budget.acquire()
