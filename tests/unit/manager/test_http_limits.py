# SPDX-License-Identifier: Apache-2.0
"""What a client may take of an HTTP server, over real sockets: nobody else notices one that misbehaves."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Authority
from support.served import served
from trainsnap_controller.manager import HttpServer, http
from trainsnap_controller.manager.connections import Limits

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
QUICK = Limits(connections=8, handshake_seconds=0.4, header_seconds=0.4, request_seconds=0.8, idle_seconds=0.6)
PATIENT = Limits(connections=8)


class App:
    """Answers with ``size`` bytes, once it is let go; never reads a body unless it is asked to."""

    def __init__(self, size: int = 2, *, reads: bool = False) -> None:
        self.size = size
        self.reads = reads
        self.go = asyncio.Event()
        self.go.set()
        self.busy = 0
        self.crowded = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.busy += 1
        if self.busy == 2:
            self.crowded.set()
        while self.reads and (await receive()).get("more_body"):
            pass
        await self.go.wait()
        length = (b"content-length", str(self.size).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": b"k" * self.size})
        self.busy -= 1


class Client:
    """One connection, from an address of the loopback network."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int, address: str = "127.0.0.1", **options: Any) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0), **options))

    async def get(self) -> bytes:
        """The status line of an answer on this connection."""
        self.writer.write(GET)
        head = await self.reader.readuntil(b"\r\n\r\n")
        await self.reader.readexactly(2)
        return head.partition(b"\r\n")[0]

    async def closed_after(self) -> float:
        """Seconds until the server has closed it."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(10):
                while await self.reader.read(65536):
                    pass
        except ConnectionError:
            pass
        return time.monotonic() - started

    def close(self) -> None:
        self.writer.transport.abort()


async def test_who_says_nothing_is_closed() -> None:
    async with served(App(), limits=QUICK) as port:
        client = await Client.open(port)
        assert 0.3 < await client.closed_after() < 2
        client.close()


async def test_who_sends_a_header_byte_by_byte_is_closed() -> None:
    async with served(App(), limits=QUICK) as port:
        client = await Client.open(port)

        async def drip() -> None:
            for byte in GET * 20:
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert await client.closed_after() < 2
        dripping.cancel()
        client.close()


async def test_a_second_header_has_no_more_time_than_the_first() -> None:
    async with served(App(), limits=QUICK) as port:
        client = await Client.open(port)
        assert await client.get() == b"HTTP/1.1 200 OK"
        client.writer.write(b"GET / HTTP/1.1\r\n")
        assert await client.closed_after() < 0.6 + 1
        client.close()


async def test_between_requests_a_connection_is_kept_for_a_while() -> None:
    async with served(App(), limits=QUICK) as port:
        client = await Client.open(port)
        for _ in range(3):
            assert await client.get() == b"HTTP/1.1 200 OK"
            await asyncio.sleep(0.3)
        assert await client.closed_after() < 2
        client.close()


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with served(App(reads=True), limits=QUICK) as port:
        client = await Client.open(port)
        client.writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nk")
        assert 0.5 < await client.closed_after() < 3
        client.close()


async def test_the_rest_of_a_body_that_nobody_wants_is_not_waited_for() -> None:
    async with served(App(), limits=QUICK) as port:
        client = await Client.open(port)
        client.writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\nk")
        await client.reader.readuntil(b"kk")

        async def drip() -> None:
            while True:
                client.writer.write(b"k")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert await client.closed_after() < 2
        dripping.cancel()
        client.close()


async def test_who_does_not_read_the_answer_is_closed() -> None:
    app = App(size=64 * 2**20)
    async with served(app, limits=QUICK) as port:
        client = await Client.open(port, limit=1024)
        client.writer.write(GET)
        async with asyncio.timeout(5):
            while (await client.reader.read(1)) == b"":
                pass
            await asyncio.sleep(QUICK.request_seconds + QUICK.idle_seconds + 1)
        read = 0
        try:
            while chunk := await client.reader.read(2**20):
                read += len(chunk)
        except ConnectionError:
            pass
        assert read < app.size
        client.close()


async def test_a_header_that_has_no_end_is_refused() -> None:
    async with served(App(), limits=PATIENT) as port:
        client = await Client.open(port)
        client.writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"x" * PATIENT.header_bytes)
        assert b" 400 " in await client.reader.readline()
        assert await client.closed_after() < 2
        client.close()


async def test_a_header_of_a_usual_size_is_not() -> None:
    async with served(App(), limits=PATIENT) as port:
        client = await Client.open(port)
        client.writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"x" * 8000 + b"\r\n\r\n")
        assert b" 200 " in await client.reader.readline()
        client.close()


SILENT = [
    pytest.param(b"", id="says nothing"),
    pytest.param(b"GET / HTTP/1.1\r\n", id="begins a header"),
    pytest.param(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nk", id="begins a body"),
    pytest.param(GET, id="has asked once and goes on"),
]


@pytest.mark.parametrize("said", SILENT)
async def test_many_connections_of_one_client_leave_room_for_others(said: bytes) -> None:
    async with served(App(reads=True), limits=PATIENT) as port:
        other = await Client.open(port, "127.0.0.2")
        assert await other.get() == b"HTTP/1.1 200 OK"
        flood = []
        for _ in range(5 * PATIENT.connections):
            client = await Client.open(port)
            client.writer.write(said)
            flood.append(client)
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            assert await other.get() == b"HTTP/1.1 200 OK", "kept, since its address has the fewest"
            for _ in range(5):
                new = await Client.open(port, "127.0.0.3")
                assert await new.get() == b"HTTP/1.1 200 OK"
                new.close()
        for client in [*flood, other]:
            client.close()


async def test_who_is_being_answered_is_never_given_up_for_another() -> None:
    app = App()
    app.go.clear()
    async with served(app, limits=Limits(connections=2)) as port:
        first = [await Client.open(port) for _ in range(2)]
        answers = [asyncio.create_task(client.get()) for client in first]
        async with asyncio.timeout(5):
            await app.crowded.wait()
            third = await Client.open(port, "127.0.0.2")
            waiting = asyncio.create_task(third.get())
            await asyncio.sleep(0.1)
            assert app.busy == 2
            app.go.set()
            assert await asyncio.gather(*answers, waiting) == [b"HTTP/1.1 200 OK"] * 3
        for client in [*first, third]:
            client.close()


async def test_an_address_with_too_many_gets_no_more_while_others_do() -> None:
    app = App()
    app.go.clear()
    async with served(app, limits=Limits(connections=8, per_address=2)) as port:
        first = [await Client.open(port) for _ in range(2)]
        answers = [asyncio.create_task(client.get()) for client in first]
        async with asyncio.timeout(5):
            await app.crowded.wait()
            third = await Client.open(port)
            assert await third.closed_after() < 2
            other = await Client.open(port, "127.0.0.2")
            answers.append(asyncio.create_task(other.get()))
            app.go.set()
            assert await asyncio.gather(*answers) == [b"HTTP/1.1 200 OK"] * 3
            again = await Client.open(port)
            assert await again.get() == b"HTTP/1.1 200 OK", "in the place of one of its own that waits"
        for client in [*first, third, other, again]:
            client.close()


async def test_a_fault_in_accepting_ends_the_server_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(http, "accept", broken)
    with pytest.raises(RuntimeError, match="a fault"):
        await HttpServer("test", App(), "127.0.0.1:0").run()


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context and its client's."""
    root = Authority()
    pair = root.issue("server", names=("localhost",))
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    return context, ssl.create_default_context(cadata=root.pem.decode())


async def test_who_never_shakes_hands_is_closed_and_leaves_room(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    server, trust = tls
    async with served(App(), limits=QUICK, tls=server) as port:
        flood = [await Client.open(port) for _ in range(5 * QUICK.connections)]
        flood[1].writer.write(b"\x16\x03\x01")
        flood[2].writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(5):
            other = await Client.open(port, "127.0.0.2", ssl=trust, server_hostname="localhost")
            assert await other.get() == b"HTTP/1.1 200 OK"
        for client in flood:
            assert await client.closed_after() < 3
            client.close()
        other.close()


def _says(data: bytes, *, reset: bool = False) -> Callable[[ssl.SSLContext, socket.socket], None]:
    """A client that shakes hands, says something, hears something back and goes, with or without a word."""

    def client(trust: ssl.SSLContext, sock: socket.socket) -> None:
        with trust.wrap_socket(sock, server_hostname="localhost") as secure:
            if data:
                secure.sendall(data)
                secure.recv(1000)
            if reset:
                secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return client


def _says_no_tls(trust: ssl.SSLContext, sock: socket.socket) -> None:
    sock.sendall(GET)
    sock.recv(1000)


def _waits_until_it_is_closed(trust: ssl.SSLContext, sock: socket.socket) -> None:
    sock.recv(1000)


CLIENTS = [
    pytest.param(_says(b""), id="shakes hands and goes"),
    pytest.param(_says(GET), id="asks and goes"),
    pytest.param(_says(GET, reset=True), id="asks and is cut off"),
    pytest.param(_says(b"\0\0\r\n\r\n"), id="speaks no HTTP"),
    pytest.param(_says_no_tls, id="speaks no TLS"),
    pytest.param(_waits_until_it_is_closed, id="says nothing"),
]


@pytest.mark.parametrize("client", CLIENTS)
async def test_nothing_stays_of_a_connection_not_even_for_the_garbage_collection(
    client: Callable[[ssl.SSLContext, socket.socket], None], tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    def left() -> int:
        return sum(type(found) is SSLProtocol for found in gc.get_objects())

    def come_and_go(port: int) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            client(tls[1], sock)

    async with served(App(), limits=QUICK, tls=tls[0]) as port:
        gc.collect()
        gc.disable()
        try:
            before = left()
            for _ in range(8):
                await asyncio.to_thread(come_and_go, port)
            async with asyncio.timeout(5):
                while left() > before:  # noqa: ASYNC110 - that something is gone is told to nobody
                    await asyncio.sleep(0.05)
        finally:
            gc.enable()
