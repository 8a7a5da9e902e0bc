# SPDX-License-Identifier: Apache-2.0
"""The connections of one HTTP server: how many there are, how long each may take, and which has to go.

Used by ``http`` only. Whoever reaches a port may misbehave: open connections and say nothing, send a header byte by
byte, never read the answer. Nobody else may notice. So a connection has a deadline in every state, and when there are
as many as there may be, a new one takes the place of one that waits for its client: of the address with the most
connections, the one that waits the longest. A request that is being answered is never given up for that.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import ssl

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may take. Seconds and bytes.

    ``per_address`` is for servers that many different clients use: beyond it, an address gets no answer rather than
    another one's turn. ``header_seconds`` count from the first byte of a request (or from the connection),
    ``request_seconds`` from its header to the end of the answer, ``idle_seconds`` between two requests. The API server
    keeps connections to webhooks for 90 s without use, so ours are kept longer: the side that asks closes first, and no
    request meets a closing connection. A header that is not complete after ``header_bytes`` is refused.
    """

    connections: int = 128
    per_address: int | None = None
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    request_seconds: float = 60.0
    idle_seconds: float = 120.0
    header_bytes: int = 16 * 1024

    @property
    def sweep_seconds(self) -> float:
        """How often it is looked for what has passed its deadline."""
        return min(1.0, self.header_seconds, self.request_seconds, self.idle_seconds) / 2


class Connections:
    """All connections of a server, from the moment they are accepted."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: set[Connection] = set()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> None:
        """Count one that was accepted, until it is discarded."""
        self._open.add(connection)

    def discard(self, connection: Connection) -> None:
        """It is closed, or as good as closed."""
        self._open.discard(connection)
        self._changed.set()

    def changed(self) -> None:
        """A connection waits for its client again."""
        self._changed.set()

    async def room(self, address: str) -> bool:
        """Return when a connection from that address has its place; somebody may have to go for it. False: it has to
        go itself."""
        while True:
            count = Counter(connection.address for connection in self._open)
            crowded = self.limits.per_address is not None and count[address] >= self.limits.per_address
            if not crowded and len(self._open) < self.limits.connections:
                return True
            if self._give_up(count, address if crowded else None):
                continue
            if crowded:
                return False
            self._changed.clear()
            await self._changed.wait()

    def relieve(self) -> None:
        """Give one up that waits, if there is any: the process has reached a limit of its own."""
        self._give_up(Counter(connection.address for connection in self._open), None)

    def _give_up(self, count: Counter[str], address: str | None) -> bool:
        """Drop one that waits, of an address if it is given. False: none does."""
        waiting = [one for one in self._open if one.waits and address in (None, one.address)]
        if waiting:
            max(waiting, key=lambda one: (count[one.address], -one.since)).drop()
        return bool(waiting)

    async def sweep(self) -> None:
        """Close what has passed its deadline, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.limits.sweep_seconds)
            now = loop.time()
            for connection in [one for one in self._open if one.deadline < now]:
                connection.drop()


class _Parser(h11.Connection):
    """h11's exceptions refer to a frame that refers to them: a cycle, from which the whole connection hangs."""

    def next_event(self) -> Any:
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            raise error.with_traceback(None) from None


class Connection(H11Protocol):
    """One connection with its deadlines. uvicorn speaks HTTP; here is only looked at where it stands.

    It exists from the moment it is accepted; ``opening`` brings it to its first request, through TLS perhaps. Once it
    is closed nothing refers to it: what hangs in a cycle stays until the garbage collection finds it, with the 256 KiB
    that asyncio keeps for TLS, and a thousand such connections fill the memory of a pod.
    """

    def __init__(self, config: Any, server_state: Any, app_state: Any, *, all_: Connections, address: str) -> None:
        super().__init__(config, server_state, app_state)
        self.conn = _Parser(h11.SERVER, all_.limits.header_bytes)
        self._all = all_
        self.address = address
        self.opening: asyncio.Task[None] | None = None
        self._dropped = False
        self._enter(all_.limits.handshake_seconds)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._enter(self._all.limits.header_seconds)
        if self._dropped:  # too late to keep it from opening
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.discard(self)
        super().connection_lost(exc)
        # uvicorn does this after orderly ends only, and leaves a cycle of references.
        self._unset_keepalive_if_required()
        self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before and not self.cycle.response_complete:
            self._enter(self._all.limits.request_seconds)
        elif self._between:
            # The first bytes of the next request, or what is left of a body that nobody wants.
            self._enter(self._all.limits.header_seconds)

    def on_response_complete(self) -> None:
        before = self.cycle
        super().on_response_complete()
        if self.cycle is before:
            self._enter(self._all.limits.idle_seconds, between=True)
            self._all.changed()
        else:  # The next request had arrived already.
            self._enter(self._all.limits.request_seconds)

    def _enter(self, seconds: float, *, between: bool = False) -> None:
        """A state that may last so long; ``between`` two requests or not."""
        self.since = self.loop.time()
        self.deadline = self.since + seconds
        self._between = between

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn: to shake hands, or to send a request or the rest of one."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def drop(self) -> None:
        """Close it at once, whatever is being sent."""
        self._dropped = True
        self._all.discard(self)
        if self.opening is not None:
            self.opening.cancel()
        if self.transport is not None:
            self.transport.abort()

    def open(self, sock: socket.socket, tls: ssl.SSLContext | None, tasks: asyncio.TaskGroup) -> None:
        """Begin, in a task that is under way after one turn of the loop."""
        self._all.add(self)
        self.opening = tasks.create_task(_open(sock, self, tls))
        self.opening.add_done_callback(self._opened)

    def _opened(self, _: asyncio.Task[None]) -> None:
        """The task has ended, and is forgotten: its exception refers to frames, and those to the connection."""
        self.opening = None
        if self.transport is None:
            self._all.discard(self)


async def accept(
    name: str,
    listening: socket.socket,
    connections: Connections,
    make: Callable[[str], Connection],
    tls: ssl.SSLContext | None,
) -> None:
    """Accept connections until cancelled. ``make`` makes the protocol for a client's address."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(connections.sweep())
        while True:
            try:
                sock, (address, *_) = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                # No more file descriptors, say. There may be some again in a moment.
                _log.warning("connection not accepted", server=name, error=error.strerror or str(error))
                connections.relieve()
                await asyncio.sleep(0.1)
                continue
            stays = False
            try:
                stays = await connections.room(address)
            finally:
                if not stays:
                    sock.close()
            if stays:
                make(address).open(sock, tls, tasks)
                await asyncio.sleep(0)  # From here on the task answers for the socket.


async def _open(sock: socket.socket, connection: Connection, tls: ssl.SSLContext | None) -> None:
    """From an accepted socket to a connection that speaks HTTP. What fails on the way concerns that client only."""
    seconds = None if tls is None else connection.deadline - connection.since
    try:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection, sock, ssl=tls, ssl_handshake_timeout=seconds
        )
    except OSError as error:
        # TLS errors and timeouts are of this type; every port scan makes some.
        error.__traceback__ = None
    except Exception:
        _log.exception("a connection failed before its first request")
