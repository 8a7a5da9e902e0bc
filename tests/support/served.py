# SPDX-License-Identifier: Apache-2.0
"""One of the operator's HTTP servers on a port of the loopback interface, for tests over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from trainsnap_controller.manager import HttpServer


@asynccontextmanager
async def served(app: Any, address: str = "127.0.0.1:0", **options: Any) -> AsyncIterator[int]:
    """Serve an ASGI application until the block ends; yields the port. ``options`` are those of ``HttpServer``."""
    server = HttpServer("test", app, address, **options)
    task = asyncio.create_task(server.run())
    await server.wait_ready()
    try:
        yield server.port
    finally:
        await server.stop()
        await task
