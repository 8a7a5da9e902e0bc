# SPDX-License-Identifier: Apache-2.0
"""HTTP servers inside the operator process: health, metrics and webhooks.

Started first and stopped last by the manager, so that health can be asked for as long as the process lives. uvicorn
would take over the signals of the process; here it does not. The port is bound when the server is made, so a port that
is taken is an error at start, and a port of 0 can be read at once. What clients may take is limited by ``connections``.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from trainsnap_controller.manager.connections import Connection, Connections, Limits, accept

if TYPE_CHECKING:
    import ssl

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request


_PORT: Final = re.compile(r"[0-9]{1,5}")


class ListenError(Exception):
    """The address cannot be listened on; the text is one line for the user."""


class _Server(uvicorn.Server):
    """uvicorn's server with connections that are accepted, and limited, by ourselves."""

    def __init__(self, name: str, config: uvicorn.Config, limits: Limits, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self.connections = Connections(limits)
        self.servers = []
        self._name = name
        self._tls = tls
        self._accepts: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        await self.lifespan.startup()

        def make(address: str) -> Connection:
            return Connection(
                self.config, self.server_state, self.lifespan.state, all_=self.connections, address=address
            )

        accepting = accept(self._name, sockets[0], self.connections, make, self._tls)
        self._accepts = asyncio.create_task(accepting, name=f"{self._name} accepts")
        self.started = True
        self.accepting.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.refuse()
        await super().shutdown(sockets)

    async def refuse(self) -> None:
        """Accept nothing more."""
        if self._accepts is not None:
            self._accepts.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._accepts

    async def on_tick(self, counter: int) -> bool:
        # It ends only by a fault of ours, which `refuse` raises then.
        return await super().on_tick(counter) or (self._accepts is not None and self._accepts.done())

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The manager owns SIGTERM and SIGINT, and stops servers last.
        yield


class HttpServer:
    """An ASGI application behind a port.

    Args:
        name: for logs and errors.
        app: the ASGI application.
        address: ``HOST:PORT`` or ``:PORT`` for all interfaces; port 0 for a free one.
        tls: serves HTTPS. New connections see what is loaded into the context later.
        limits: what its clients may take.

    Raises:
        ListenError: malformed address, or it is taken.
    """

    def __init__(
        self, name: str, app: Any, address: str, *, tls: ssl.SSLContext | None = None, limits: Limits | None = None
    ) -> None:
        self.name = name
        self.scheme = "http" if tls is None else "https"
        self._socket = _listen(name, address)
        self._socket.setblocking(False)
        limits = limits or Limits()
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=math.ceil(limits.idle_seconds),
        )
        self._server = _Server(name, config, limits, tls)

    async def run(self) -> None:
        """Serve until `stop`, or until cancelled."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            # Cancelled, it has closed nothing itself.
            try:
                await self._server.refuse()
            finally:
                self._socket.close()

    async def wait_ready(self) -> None:
        """Return once connections are accepted."""
        await self._server.accepting.wait()

    async def stop(self) -> None:
        """Ask `run` to end: no new connections, a second for the requests that are being answered."""
        self._server.should_exit = True

    def close(self) -> None:
        """Give the port back of a server that never ran."""
        self._socket.close()


def metrics_app(registry: CollectorRegistry) -> Starlette:
    """An ASGI application with ``/metrics``, in the format that the scraper asks for."""

    async def metrics(request: Request) -> Response:
        try:
            encode, content_type = choose_encoder(request.headers.get("accept", ""))
        except (TypeError, ValueError):
            # A version that is no number is nothing that could be answered with.
            encode, content_type = choose_encoder("")
        return Response(encode(registry), headers={"content-type": content_type})

    return application(Route("/metrics", metrics))


def application(*routes: Route) -> Starlette:
    """An ASGI application that answers at these paths and no others."""
    app = Starlette(routes=routes)
    # Would answer the same path with a slash behind it with a redirect to whatever host the request names.
    app.router.redirect_slashes = False
    return app


def _encodable(host: str) -> bool:
    """Whether a resolver can be asked about a host. Where not, the standard library leaves an open socket behind."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return "\0" not in host


def _listen(name: str, address: str) -> socket.socket:
    host, colon, port = address.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or int(port) > 65535 or not _encodable(host):
        raise ListenError(f"{name}: address {address[:80]!r}: must be HOST:PORT or :PORT, with a port from 0 to 65535")
    host = host.strip("[]")
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, int(port)), family=family, dualstack_ipv6=both, backlog=128)
    except OSError as error:
        raise ListenError(f"{name}: cannot listen on {address}: {error.strerror or error}") from error
    # Connections inherit it. asyncio does this only for sockets that it made itself; without it, an answer whose head
    # and body are written apart waits 40 ms for the client's delayed acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
