# SPDX-License-Identifier: Apache-2.0
"""An HTTP server on the loopback that misbehaves on request: resets, silence, torn bodies, odd answers.

Used by the protocol tests of the transport. It does not pretend to be Kubernetes: every answer is written down in the
test that wants it. A *behaviour* is an async function of an ``Exchange``; behaviours are queued for all requests
(``then``) or for one path (``on``), and the last one of a queue is repeated for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    import ssl

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived. ``target`` is the raw request target; ``connection`` counts connections from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    peer_certificate: JSON | None = field(default=None, repr=False)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def json(self) -> Any:
        return json.loads(self.body)


class Exchange:
    """One request and the means to answer it, well or badly."""

    def __init__(self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen = seen
        self._reader = reader
        self._writer = writer
        self.keep = True
        """Whether the connection serves another request afterwards."""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int = 200, *headers: tuple[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers), "", ""]
        await self.write("\r\n".join(lines).encode())

    async def chunk(self, data: bytes) -> None:
        await self.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.write(b"0\r\n\r\n")

    async def gone(self) -> None:
        """Waits until the client has closed its side."""
        self.keep = False
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(4096):
                pass

    def reset(self) -> None:
        """Cuts the connection with a TCP reset."""
        self.keep = False
        # Lingering for zero seconds is what makes the kernel send RST instead of FIN.
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    def close(self) -> None:
        """Closes the connection properly, at a moment that may be improper."""
        self.keep = False
        self._writer.close()


Behaviour = Callable[[Exchange], Awaitable[None]]


@dataclass
class Server:
    """What arrived (``seen``, ``connections``), and what to do about it."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    _queue: list[Behaviour] = field(default_factory=list)
    _paths: dict[str, list[Behaviour]] = field(default_factory=dict)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def then(self, *behaviours: Behaviour) -> None:
        """Answers for the next requests to any path without its own queue."""
        self._queue.extend(behaviours)

    def on(self, path: str, *behaviours: Behaviour) -> None:
        """Answers for the next requests to this path."""
        self._paths.setdefault(path, []).extend(behaviours)

    def take(self, path: str) -> Behaviour:
        queue = self._paths.get(path, self._queue)
        if not queue:
            return text(500, f"no behaviour left for {path}")
        return queue.pop(0) if len(queue) > 1 else queue[0]

    async def record(self, seen: Seen) -> None:
        async with self._changed:
            self.seen.append(seen)
            self._changed.notify_all()

    async def wait_for(self, count: int) -> None:
        """Returns when ``count`` requests have arrived in all."""
        async with self._changed, asyncio.timeout(10):
            await self._changed.wait_for(lambda: len(self.seen) >= count)

    async def opened(self, change: int) -> None:
        """Counts connections that open (1) and close (-1)."""
        async with self._changed:
            self.connections += change > 0
            self.open_connections += change
            self._changed.notify_all()

    async def wait_for_open(self, count: int) -> None:
        """Returns when no more than ``count`` connections are open; the client's close takes a moment to arrive."""
        async with self._changed, asyncio.timeout(10):
            await self._changed.wait_for(lambda: self.open_connections <= count)

    def kubeconfig(self, *, cluster: JSON | None = None, **user: Any) -> JSON:
        """A kubeconfig for this server; keywords are the user's settings (``token``, ``tokenFile``, ``exec``, ...)."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "loopback",
            "contexts": [{"name": "loopback", "context": {"cluster": "it", "user": "me"}}],
            "clusters": [{"name": "it", "cluster": {"server": self.url, **(cluster or {})}}],
            "users": [{"name": "me", "user": user}],
        }


@contextlib.asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server on a free port; at the end its connections are cut and everything is awaited."""
    server = Server()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await server.opened(1)
            await _serve(server, reader, writer, server.connections)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()
            await server.opened(-1)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listener.close()
        running = [*tasks]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await listener.wait_closed()


async def _serve(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        request, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, target, _ = request.split(" ")
        certificate = writer.get_extra_info("peercert")
        seen = Seen(method, target, headers, body, number, certificate)
        await server.record(seen)
        exchange = Exchange(seen, reader, writer)
        await server.take(seen.path)(exchange)
        if not exchange.keep:
            return


# -- behaviours -------------------------------------------------------------------------------------------------------


def text(status: int, body: str | bytes, *headers: tuple[str, str], kind: str = "text/plain") -> Behaviour:
    """A complete answer with any body."""
    content = body.encode() if isinstance(body, str) else body

    async def behave(exchange: Exchange) -> None:
        length = ("Content-Length", str(len(content)))
        await exchange.head(status, ("Content-Type", kind), length, *headers)
        await exchange.write(content)

    return behave


def reply(body: Any, *headers: tuple[str, str], status: int = 200) -> Behaviour:
    """A complete JSON answer."""
    return text(status, json.dumps(body), *headers, kind="application/json")


def status(
    code: int, reason: str = "", message: str | None = "no", *headers: tuple[str, str], **more: Any
) -> Behaviour:
    """An error with a Status body; ``message`` None leaves it out, ``more`` adds fields."""
    body: JSON = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, **more}
    if reason:
        body["reason"] = reason
    if message is not None:
        body["message"] = message
    return reply(body, *headers, status=code)


def stream(*chunks: bytes, end: Behaviour | None = None) -> Behaviour:
    """A watch: these pieces, each as one HTTP chunk; then a proper end, or ``end`` instead."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head(200, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked"))
        for data in chunks:
            await exchange.chunk(data)
        if end is None:
            await exchange.end()
        else:
            await end(exchange)

    return behave


def event(kind: str, obj: Any) -> bytes:
    """One line of a watch, as Go writes it: no escapes for characters outside ASCII."""
    return json.dumps({"type": kind, "object": obj}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


async def silence(exchange: Exchange) -> None:
    """A blackhole: the connection stays, no byte comes."""
    await exchange.gone()


async def reset(exchange: Exchange) -> None:
    """A TCP reset."""
    exchange.reset()


async def hang_up(exchange: Exchange) -> None:
    """The connection is closed without an answer, or in the middle of one."""
    exchange.close()


def torn(body: bytes, claimed: int, end: Behaviour = hang_up, *, code: int = 200) -> Behaviour:
    """An answer that claims ``claimed`` bytes and stops after ``body``."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head(code, ("Content-Type", "application/json"), ("Content-Length", str(claimed)))
        await exchange.write(body)
        await end(exchange)

    return behave


def after(event: asyncio.Event, behaviour: Behaviour) -> Behaviour:
    """The behaviour, once the event is set."""

    async def behave(exchange: Exchange) -> None:
        await event.wait()
        await behaviour(exchange)

    return behave
