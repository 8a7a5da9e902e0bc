# SPDX-License-Identifier: Apache-2.0
"""Transports for the protocol tests: connected to a misbehaving server, with short limits and recorded waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.misbehaving import Server, serving
from trainsnap_api.transport import Transport, TransportSettings


class Waits(list[float]):
    """A ``sleep`` that does not: it keeps the seconds it was asked for."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@asynccontextmanager
async def connected(
    server: Server, *, token: str = "secret", sleep: Any = None, connect: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Transport]:
    """A transport to the server; keywords are its settings, ``connect`` goes to ``Transport.connect``."""
    arguments: dict[str, Any] = {"kubeconfig": server.kubeconfig(token=token), "random": lambda: 0.5, "environ": {}}
    if sleep is not None:
        arguments["sleep"] = sleep
    arguments.update(connect or {})
    async with await Transport.connect(settings=TransportSettings(**settings), **arguments) as transport:
        yield transport


@asynccontextmanager
async def pair(**settings: Any) -> AsyncIterator[tuple[Server, Transport]]:
    """A server and a transport to it."""
    async with serving() as server, connected(server, **settings) as transport:
        yield server, transport
