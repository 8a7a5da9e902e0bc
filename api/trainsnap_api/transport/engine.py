# SPDX-License-Identifier: Apache-2.0
"""The HTTP engine: the only file that knows which HTTP library is used.

Called by the request pipeline with a finished URL path, headers and body; gives back status, headers and bytes, or a
Disconnected. It never retries, never looks at a status, never follows a redirect, never reads credentials.

aiohttp, used directly: a GET of a 2 KB object costs 0.3 ms of CPU here, 0.9 ms through httpx-aiohttp, 2.2 ms through
httpx and through kr8s (``tests/bench/bench_transport.py``). httpx-aiohttp 0.2 also reports a connection that broke
after the request was sent as a connect timeout, so a create could not be told from one that was never sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from trainsnap_api.transport.errors import Disconnected, ResponseTooLarge, TimedOut, TransportClosed

if TYPE_CHECKING:
    import ssl as ssl_module
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping

_MIB = 1024 * 1024
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A peer that vanished without a word (a NAT entry dropped, a node lost) is noticed after a minute, also by a watch."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, whatever its status. Header names are lower-case; of repeated headers the last one is kept,
    except that all Warning headers are in ``warnings`` as sent."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    warnings: tuple[str, ...]


class Stream:
    """An answer whose body is read as it comes; made by ``Engine.stream``."""

    def __init__(self, response: aiohttp.ClientResponse, what: str) -> None:
        self._response = response
        self._what = what
        self.status = response.status
        self.headers = _headers(response)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces as the network delivers them; ends when the server ends the body properly."""
        with _translated(self._what):
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def read(self, within: float, limit: int = _MIB) -> bytes:
        """The whole body, for an error answer; cut at ``limit``."""
        body = b""
        with _translated(self._what):
            async with asyncio.timeout(within):
                async for chunk in self._response.content.iter_any():
                    body += chunk
                    if len(body) >= limit:
                        break
        return body[:limit]


class Engine:
    """Two connection pools to one server, built once, in the event loop that uses them.

    ``server`` is the base URL (it may have a path); ``proxy`` an http(s) proxy URL or None; ``server_hostname`` the
    name expected in the server's certificate when it is not the URL's.
    """

    def __init__(
        self,
        server: str,
        *,
        proxy: str | None = None,
        server_hostname: str | None = None,
        headers: Iterable[tuple[str, str]],
        connect_timeout: float,
        max_requests: int,
        max_watches: int,
    ) -> None:
        self.server = server.rstrip("/")
        self._extra: dict[str, Any] = {"server_hostname": server_hostname} if server_hostname else {}
        if proxy:
            self._extra["proxy"] = proxy
        self._connect_timeout = connect_timeout
        # Requests are bounded by a semaphore below the pool's size; a few spare connections cover those being closed.
        self._requests = _session(max_requests + 16, headers)
        self._watches = _session(max_watches, headers)

    @property
    def closed(self) -> bool:
        return self._requests.closed

    async def aclose(self) -> None:
        """Closes all connections; running requests and watches end with Disconnected."""
        await self._watches.close()
        await self._requests.close()

    async def send(
        self,
        method: str,
        path_and_query: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        ssl: ssl_module.SSLContext | bool,
        within: float,
        max_bytes: int,
    ) -> Answer:
        """One request, one answer. Disconnected (or TimedOut, ResponseTooLarge) when there is no complete answer."""
        what = f"{method} {path_and_query.partition('?')[0]}"
        limits = aiohttp.ClientTimeout(total=within, connect=self._connect_timeout)
        self._check_open(what)
        # Above 1 MiB aiohttp wants a file, which it sends in pieces so that the event loop goes on.
        data = io.BytesIO(body) if body is not None and len(body) > _MIB else body
        with _translated(what, self.server):
            async with self._requests.request(
                method, self._url(path_and_query), headers=headers, data=data, ssl=ssl, timeout=limits,
                allow_redirects=False, **self._extra,
            ) as response:  # fmt: skip
                content = await _read(response, max_bytes, what)
                return Answer(response.status, _headers(response), content, _warnings(response))

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path_and_query: str,
        *,
        headers: Mapping[str, str],
        ssl: ssl_module.SSLContext | bool,
        open_timeout: float,
        idle_timeout: float,
    ) -> AsyncIterator[Stream]:
        """A GET whose body is read in pieces. The connection is closed on leaving, also when the body goes on.

        ``open_timeout`` is for the status line (the API server sends it at once, before there is any event),
        ``idle_timeout`` for each wait for bytes after that.
        """
        what = f"watch {path_and_query.partition('?')[0]}"
        limits = aiohttp.ClientTimeout(total=None, connect=self._connect_timeout, sock_read=idle_timeout)
        self._check_open(what)
        with _translated(what, self.server):
            async with asyncio.timeout(open_timeout):
                response = await self._watches.request(
                    "GET", self._url(path_and_query), headers=headers, ssl=ssl, timeout=limits,
                    allow_redirects=False, **self._extra,
                )  # fmt: skip
        try:
            yield Stream(response, what)
        finally:
            response.close()

    def _check_open(self, what: str) -> None:
        if self.closed:
            raise TransportClosed(f"{what}: the transport is closed", sent=False)

    def _url(self, path_and_query: str) -> URL:
        # Already encoded: yarl would normalise what we escaped on purpose.
        return URL(self.server + path_and_query, encoded=True)


def _session(limit: int, headers: Iterable[tuple[str, str]]) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=30, socket_factory=_socket),
        headers=CIMultiDict(headers),
        cookie_jar=aiohttp.DummyCookieJar(),
        # The environment's proxies are resolved by ``proxy.py``; here it would also mean ~/.netrc credentials.
        trust_env=False,
    )
    # aiohttp repeats PUT and DELETE by itself when a kept connection breaks, which is ours to decide (``retry.py``).
    # There is no public switch in 3.14; a protocol test notices when this one stops working.
    session._retry_connection = False
    return session


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, proto, _, _ = address
    sock = socket.socket(family, kind, proto)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # named otherwise, or missing, outside Linux
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock


async def _read(response: aiohttp.ClientResponse, limit: int, what: str) -> bytes:
    too_large = f"{what}: the answer is larger than {limit} bytes"
    if (response.content_length or 0) > limit:
        response.close()
        raise ResponseTooLarge(too_large)
    chunks: list[bytes] = []
    size = 0
    with _translated(what):
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > limit:
                response.close()
                raise ResponseTooLarge(too_large)
            chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _warnings(response: aiohttp.ClientResponse) -> tuple[str, ...]:
    return tuple(response.headers.getall("Warning", ()))


@contextlib.contextmanager
def _translated(what: str, server: str = "") -> Iterator[None]:
    """Turns the library's exceptions into ours. Only a failure to connect is sure not to have sent anything."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        raise Disconnected(f"{what}: the certificate of {server} is not trusted: {reason}", sent=False) from error
    except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL) as error:
        raise Disconnected(f"{what}: cannot connect to {server}: {_reason(error)}", sent=False) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise TimedOut(f"{what}: no connection to {server} in time", sent=False) from error
    except (TimeoutError, aiohttp.ServerTimeoutError) as error:
        raise TimedOut(f"{what}: no answer in time") from error
    except (aiohttp.ClientError, OSError, RuntimeError) as error:
        # aiohttp says RuntimeError when a session was closed under a request or under a body that is being read.
        raise Disconnected(f"{what}: the connection broke: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Why, in a few words a user knows ("Connection refused"), not in the library's."""
    inner = getattr(error, "os_error", error)
    match inner:
        case aiohttp.ServerDisconnectedError():
            return "closed without an answer"
        case aiohttp.ClientPayloadError():
            return "closed in the middle of the answer"
        case aiohttp.ClientHttpProxyError(status=int(status), message=str(text)):
            # Its own text holds the proxy's URL, and with it the password.
            return f"the proxy answers {status} {text}".rstrip()
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case OSError(strerror=str(text)) if text:
            return text
    return " ".join(str(inner).split())[:300] or type(inner).__name__
