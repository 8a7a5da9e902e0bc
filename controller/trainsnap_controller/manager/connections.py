# SPDX-License-Identifier: Apache-2.0
"""The connections of one HTTP server: how many there are, how long each may take, and which has to go.

Used by ``http`` only. Whoever reaches a port may misbehave: open connections and say nothing, send a header byte by
byte, never read the answer. Nobody else may notice. So a connection has a deadline in every state, and when there are
as many as there may be, a new one takes the place of one that waits for its client: of an address that has no fewer,
the one that waits the longest. A request that is being answered is never given up for that.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

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


class Peer(Protocol):
    """A connection as it is weighed against others."""

    address: str
    since: float
    deadline: float

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn: to shake hands, or to send a request or the rest of one."""

    @property
    def idle(self) -> bool:
        """Whether it is between two requests: the client has to expect that it is closed."""

    def drop(self) -> None:
        """Close it at once."""


class Connections:
    """All connections of a server, from the moment they are accepted."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._peers: set[Peer] = set()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._peers)

    def add(self, peer: Peer) -> None:
        self._peers.add(peer)

    def discard(self, peer: Peer) -> None:
        self._peers.discard(peer)
        self._changed.set()

    def changed(self) -> None:
        """A connection waits for its client again."""
        self._changed.set()

    async def room(self, address: str) -> bool:
        """Return when a connection from that address has its place; somebody may have to go for it. False: it has to
        go itself."""
        while True:
            count = Counter(peer.address for peer in self._peers)
            crowded = self.limits.per_address is not None and count[address] >= self.limits.per_address
            if not crowded and len(self._peers) < self.limits.connections:
                return True
            if (victim := self._victim(address, count, crowded)) is not None:
                self.discard(victim)
                victim.drop()
            elif crowded:
                return False
            else:
                self._changed.clear()
                await self._changed.wait()

    def _victim(self, address: str, count: Counter[str], crowded: bool) -> Peer | None:
        """Of those that wait, the one of the address with the most. Another address than the new one's has to have
        more, or as many where the connection is between two requests."""
        new = count[address] + 1

        def yields(peer: Peer) -> bool:
            if peer.address == address or crowded:
                return peer.waits and peer.address == address
            return peer.waits and count[peer.address] >= new + (not peer.idle)

        return max(filter(yields, self._peers), key=lambda peer: (count[peer.address], -peer.since), default=None)

    def relieve(self) -> None:
        """Give one up that waits, if there is any: the process has reached a limit of its own."""
        waiting = [peer for peer in self._peers if peer.waits]
        if waiting:
            min(waiting, key=lambda peer: peer.since).drop()

    async def sweep(self) -> None:
        """Close what has passed its deadline, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.limits.sweep_seconds)
            now = loop.time()
            for peer in [peer for peer in self._peers if peer.deadline < now]:
                peer.drop()


class Arriving:
    """A connection that has been accepted and not made its TLS handshake yet. ``run`` brings it to the next state."""

    waits = True
    idle = False

    def __init__(self, sock: socket.socket, address: str, now: float) -> None:
        self.address = address
        self.since = now
        self.deadline = float("inf")  # asyncio ends handshakes that take too long.
        self._sock: socket.socket | None = sock
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup, run: Callable[[socket.socket], Awaitable[None]]) -> asyncio.Task[None]:
        """Go on in a task, which takes the socket over as soon as it runs."""

        async def go() -> None:
            sock, self._sock = self._sock, None
            assert sock is not None
            await run(sock)

        self._task = tasks.create_task(go())
        return self._task

    def drop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._sock is not None:
            self._sock.close()


class Connection(H11Protocol):
    """One connection with its deadlines. uvicorn speaks HTTP; here is only looked at where it stands."""

    def __init__(self, config: Any, server_state: Any, app_state: Any, *, all_: Connections, address: str) -> None:
        super().__init__(config, server_state, app_state)
        self._all = all_
        self.address = address
        self.since = self.loop.time()
        self.deadline = self.since + all_.limits.header_seconds
        self._between = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Joined(transport, self.loop))  # type: ignore[arg-type]
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before and not self.cycle.response_complete:
            self._enter(self._all.limits.request_seconds, between=False)
        elif self._between:
            # The first bytes of the next request, or what is left of a body that nobody wants.
            self._enter(self._all.limits.header_seconds, between=False)

    def on_response_complete(self) -> None:
        before = self.cycle
        self.transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()
        if self.cycle is before:
            self._enter(self._all.limits.idle_seconds, between=True)
            self._all.changed()
        else:  # The next request had arrived already.
            self._enter(self._all.limits.request_seconds, between=False)

    def _enter(self, seconds: float, *, between: bool) -> None:
        self.since = self.loop.time()
        self.deadline = self.since + seconds
        self._between = between

    @property
    def waits(self) -> bool:
        """Whether the rest of a request, or a new one, is waited for."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    @property
    def idle(self) -> bool:
        """Whether a request was answered and nothing has come since."""
        return self._between

    def drop(self) -> None:
        """Close it at once, whatever is being sent."""
        self.transport.abort()


class _Joined:
    """A transport that sends what is written in one go as one piece: head and body of an answer are one TLS record and
    one system call instead of two."""

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if data:
            if not self._parts:
                self._loop.call_soon(self.flush)
            self._parts.append(data)

    def flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def accept(
    name: str,
    listening: socket.socket,
    connections: Connections,
    make: Callable[[str], Connection],
    tls: ssl.SSLContext | None,
) -> None:
    """Accept connections until cancelled. ``make`` makes the protocol for a client's address."""
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(connections.sweep())
        while True:
            try:
                sock, address = await loop.sock_accept(listening)
            except OSError as error:
                # No more file descriptors, say. There may be some again in a moment.
                _log.warning("connection not accepted", server=name, error=error.strerror or str(error))
                connections.relieve()
                await asyncio.sleep(0.1)
                continue
            stays = False
            try:
                stays = await connections.room(str(address[0]))
            finally:
                if not stays:
                    sock.close()
            if not stays:
                continue
            peer = Arriving(sock, str(address[0]), loop.time())
            connections.add(peer)

            async def serve(sock: socket.socket, address: str = peer.address) -> None:
                await _shake_hands(sock, lambda: make(address), connections.limits, tls)

            peer.start(tasks, serve).add_done_callback(lambda _, peer=peer: connections.discard(peer))  # type: ignore[misc]


async def _shake_hands(
    sock: socket.socket, make: Callable[[], Connection], limits: Limits, tls: ssl.SSLContext | None
) -> None:
    """From an accepted socket to a connection that speaks HTTP. What fails on the way concerns that client only."""
    try:
        await asyncio.get_running_loop().connect_accepted_socket(
            make, sock, ssl=tls, ssl_handshake_timeout=None if tls is None else limits.handshake_seconds
        )
    except OSError:
        return  # TLS errors and timeouts are of this type; every port scan makes some.
    except Exception:
        _log.exception("a connection failed before its first request")
