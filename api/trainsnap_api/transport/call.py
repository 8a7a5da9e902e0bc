# SPDX-License-Identifier: Apache-2.0
"""One call: rate limit, concurrency bound, credentials, the attempt, typed errors, retries, and the metrics hook.

``transport.py``, ``listing.py`` and ``watch.py`` stand on this; nothing here knows about kinds or verbs.

A 401 renews the credentials once and is then an answer. A 403 is an answer. No failure closes a connection pool, so one
bad request can never end the watches beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as random_module
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from trainsnap_api.transport import answers, paths
from trainsnap_api.transport.errors import Disconnected, TimedOut, TransportError, Unauthorized
from trainsnap_api.transport.response import Response
from trainsnap_api.transport.retry import NO_RETRY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from trainsnap_api.transport.credentials import Credential, Credentials
    from trainsnap_api.transport.engine import Answer, Engine, Stream
    from trainsnap_api.transport.limiter import TokenBucket
    from trainsnap_api.transport.settings import TransportSettings

    Params = Mapping[str, str | int | bool | None]

logger = logging.getLogger(__name__)

APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

_BASE_HEADERS = (
    ("Accept", "application/json"),
    # The server would compress every answer over 128 KiB, which in one data centre costs both sides more than it saves.
    ("Accept-Encoding", "identity"),
)
_MOST_WARNINGS = 256
"""Texts that are remembered, so that each is logged once; they may hold names, and there is no end of those."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request before it is sent. ``idempotent``: doing it twice has the effect of doing it once."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    idempotent: bool = False

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


def query(params: Params | None) -> str:
    """Parameters as a query string: None is left out, booleans are ``true`` and ``false``."""
    pairs = [(k, str(v).lower() if isinstance(v, bool) else str(v)) for k, v in (params or {}).items() if v is not None]
    return urlencode(pairs, quote_via=quote, safe="")


def base_headers(user_agent: str, identity: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers of every request of one transport."""
    return [*_BASE_HEADERS, ("User-Agent", user_agent), *identity]


class Caller:
    """Makes calls to one server with one identity; safe to use from any number of tasks of its event loop."""

    def __init__(
        self,
        engine: Engine,
        credentials: Credentials,
        settings: TransportSettings,
        limiter: TokenBucket,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self.engine = engine
        self.credentials = credentials
        self.settings = settings
        self.random = random
        self._limiter = limiter
        self._slots = asyncio.Semaphore(settings.max_concurrent_requests)
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._warned: set[str] = set()

    async def call(
        self, call: Call, *, within: float | None = None, retry: bool = True, attempt_within: float | None = None
    ) -> Response:
        """The answer to ``call`` when it is a success (2xx), else an ApiError or Disconnected.

        ``within`` bounds the whole call in seconds, waiting and retries included (TimedOut); None: each attempt by the
        settings, and the retries by their policy.
        """
        attempt = attempt_within or self.settings.request_timeout
        if within is None:
            return await self._with_retries(call, retry, attempt)
        try:
            async with asyncio.timeout(within):
                return await self._with_retries(call, retry, min(attempt, within))
        except TimeoutError:
            raise TimedOut(f"{call.method} {call.path}: no answer within {within:g} s") from None

    async def _with_retries(self, call: Call, retry: bool, within: float) -> Response:
        policy = self.settings.retry if retry else NO_RETRY
        failures, waited = 0, 0.0
        while True:
            try:
                return await self._authorized(call, within)
            except TransportError as error:
                failures += 1
                delay = policy.delay(
                    error, failures=failures, waited=waited, idempotent=call.idempotent, random=self.random
                )
                if delay is None:
                    raise
                logger.debug("%s %s: trying again in %.2f s: %s", call.method, call.path, delay, error)
            waited += delay
            await self._sleep(delay)

    async def _authorized(self, call: Call, within: float) -> Response:
        """One attempt, and a second one with new credentials when the first was answered 401."""
        await self._limiter.acquire()
        async with self._slots:
            credential = await self.credentials.current()
            try:
                return await self._attempt(call, credential, within)
            except Unauthorized:
                renewed = await self.credentials.renew(credential)
                if renewed is None:
                    raise
            return await self._attempt(call, renewed, within)

    async def _attempt(self, call: Call, credential: Credential, within: float) -> Response:
        started = self._clock()
        try:
            answer = await self.engine.send(
                call.method,
                call.target,
                headers={**call.headers, **_authorization(credential)},
                body=call.body,
                ssl=credential.ssl,
                within=within,
                max_bytes=self.settings.max_response_bytes,
            )
        except Disconnected:
            self._report(call.method, call.path, 0, started)
            raise
        self._report(call.method, call.path, answer.status, started)
        return self._judge(call, answer)

    def _judge(self, call: Call, answer: Answer) -> Response:
        if 200 <= answer.status < 300:
            warnings = tuple(_warning_text(header) for header in answer.warnings)
            for text in warnings:
                self._warn(text)
            return Response(answer.status, answer.headers, answer.content, warnings, f"{call.method} {call.path}")
        raise answers.from_response(
            answer.status, answer.headers, answer.content,
            method=call.method, path=call.path, wall_clock=self._wall_clock,
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def stream(self, call: Call, *, idle_timeout: float) -> AsyncIterator[Stream]:
        """The open answer to a watch, once it is a success; an ApiError otherwise. No retries: the caller lists again
        or waits, which it must be able to do anyway when the stream breaks later."""
        await self._limiter.acquire()
        credential = await self.credentials.current()
        async with contextlib.AsyncExitStack() as stack:
            try:
                stream = await self._open(stack, call, credential, idle_timeout)
            except Unauthorized:
                renewed = await self.credentials.renew(credential)
                if renewed is None:
                    raise
                stream = await self._open(stack, call, renewed, idle_timeout)
            yield stream

    async def _open(
        self, stack: contextlib.AsyncExitStack, call: Call, credential: Credential, idle_timeout: float
    ) -> Stream:
        started = self._clock()
        try:
            stream = await stack.enter_async_context(
                self.engine.stream(
                    call.target,
                    headers=_authorization(credential),
                    ssl=credential.ssl,
                    open_timeout=self.settings.request_timeout,
                    idle_timeout=idle_timeout,
                )
            )
        except Disconnected:
            self._report("WATCH", call.path, 0, started)
            raise
        self._report("WATCH", call.path, stream.status, started)
        if not 200 <= stream.status < 300:
            content = await stream.read(self.settings.request_timeout)
            raise answers.from_response(
                stream.status, stream.headers, content,
                method="WATCH", path=call.path, wall_clock=self._wall_clock,
            )  # fmt: skip
        return stream

    def _warn(self, text: str) -> None:
        if self.settings.on_warning is not None:
            try:
                self.settings.on_warning(text)
            except Exception:
                logger.exception("the hook for warnings failed; the request is not affected")
        elif text not in self._warned:
            if len(self._warned) >= _MOST_WARNINGS:
                self._warned.clear()
            self._warned.add(text)
            logger.warning("the server warns: %s", text)

    def _report(self, method: str, path: str, status: int, started: float) -> None:
        hook = self.settings.on_request
        if hook is None:
            return
        try:
            hook(method, paths.template(path), status, self._clock() - started)
        except Exception:
            logger.exception("the metrics hook failed; the request is not affected")


def _authorization(credential: Credential) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential.token}"} if credential.token else {}


def _warning_text(header: str) -> str:
    """The text of a Warning header (RFC 7234: ``299 agent "text"``); the header itself when it has another form."""
    start, end = header.find('"'), header.rfind('"')
    if start < 0 or end <= start:
        return header
    return header[start + 1 : end].replace('\\"', '"').replace("\\\\", "\\")
