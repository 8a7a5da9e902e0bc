# SPDX-License-Identifier: Apache-2.0
"""The webhook server: an ASGI application with one path for each webhook.

Runs in every replica behind TLS. It answers every question within the time that the API server gives it and never with
a traceback: what cannot be decoded is 400 with one line, what breaks inside is an answer with code 500, and what
cannot be read in time is an answer that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from trainsnap_api.transport import Resource
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.snapshot.reads import Api, SharedReads
from trainsnap_controller.webhooks import paths, runtimes, times
from trainsnap_controller.webhooks.review import (
    CREATE,
    INTERNAL_ERROR,
    UNAVAILABLE,
    UPDATE,
    Answer,
    Review,
    ReviewError,
    decode,
    encode,
)
from trainsnap_controller.webhooks.trainjobs import TrainJobs

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

JSON = dict[str, Any]
Handler = Callable[[Review], Awaitable[Answer]]
Reply = tuple[int, bytes, bytes]
"""HTTP status, content type, body."""

LARGEST_BODY: Final = 7 * 1024 * 1024
"""Bytes. Two objects of the 3 MiB that the API server takes in a request, and what is around them."""
LARGE: Final = 256 * 1024
"""Bytes up to which a body is kept at once; a review of a TrainJob has about 3 KiB."""
LARGE_BODIES: Final = 8
"""Larger bodies that are read at the same time; more of them wait. No number of clients fills the memory."""
LONGEST_SECONDS: Final = 9.0
"""For an answer, when the request does not say how long the API server waits; its default is 10 s."""
MOST_SECONDS: Final = 30.0
"""The longest that an API server waits for a webhook; who says more is none."""
MARGIN_SECONDS: Final = 0.5
"""How much earlier than the API server we stop waiting, so that the user gets our words and not its own."""
_TIMEOUT: Final = re.compile(rb"timeout=(?:(\d{1,4})m)?(\d{1,9}(?:\.\d{1,9})?)s")

_log = structlog.stdlib.get_logger(__name__)


class WebhookMetrics(Protocol):
    """What a webhook counts with, by path."""

    def busy(self, path: str, change: int) -> None: ...
    def answered(self, path: str, code: int, seconds: float) -> None: ...


def handlers(
    api: Api,
    framework: Framework,
    *,
    opaque_kinds: Mapping[str, Resource],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> dict[str, Handler]:
    """What answers at each path. ``api`` reads the API server; ``opaque_kinds`` are runtimes of other controllers."""

    async def set_times(question: Review) -> Answer:
        return Answer(patch=times.patch(question.obj, question.old, now()))

    return {
        paths.MUTATE_TRAIN_JOB: set_times,
        paths.VALIDATE_TRAIN_JOB: TrainJobs(SharedReads(api), framework, opaque_kinds).review,
        paths.VALIDATE_TRAINING_RUNTIME: runtimes.review,
        paths.VALIDATE_CLUSTER_TRAINING_RUNTIME: runtimes.review,
    }


class WebhookApp:
    """The ASGI application. Plain, without a framework: this is on the way of every TrainJob that is created.

    Args:
        handling: a handler for each of ``paths.KINDS``.
        metrics: counts what is answered at these paths.
    """

    def __init__(
        self, handling: Mapping[str, Handler], metrics: WebhookMetrics, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._handling = handling
        self._metrics = metrics
        self._clock = clock
        self._large = asyncio.Semaphore(LARGE_BODIES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        handler = self._handling.get(path)
        if handler is None:
            await _send(send, _line(404, "there is no webhook at this path"))
        elif scope["method"] != "POST":
            await _send(send, _line(405, "only POST is answered here"))
        else:
            await self._counted(path, handler, scope, receive, send)

    async def _counted(self, path: str, handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
        started = self._clock()
        self._metrics.busy(path, 1)
        status = 500
        try:
            async with contextlib.AsyncExitStack() as held:
                reply = await self._reply(paths.KINDS[path], handler, scope, receive, held)
            status = reply[0]
        finally:
            self._metrics.busy(path, -1)
            self._metrics.answered(path, status, self._clock() - started)
        await _send(send, reply)

    async def _reply(
        self, kind: str, handler: Handler, scope: Scope, receive: Receive, held: contextlib.AsyncExitStack
    ) -> Reply:
        deadline = asyncio.get_running_loop().time() + _seconds(scope["query_string"])
        try:
            async with asyncio.timeout_at(deadline):
                question = decode(await self._body(scope, receive, held))
        except TimeoutError:
            return _line(408, "the body did not arrive in time")
        except _Gone:
            return _line(400, "the client went away")
        except ReviewError as error:
            return _line(error.status, str(error))
        if question.kind != kind:
            return _line(400, f"request.kind.kind: only {kind} is reviewed here, not {question.kind[:60]!r}")
        answer = await _judged(question, handler, deadline)
        return 200, b"application/json", encode(question.uid, answer)

    async def _body(self, scope: Scope, receive: Receive, held: contextlib.AsyncExitStack) -> bytes:
        """The body; a large one only with one of the few places for such, until ``held`` is closed.

        Raises ``ReviewError`` before more than the limit was kept.
        """
        headers = dict(scope["headers"])
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media_type != b"application/json":
            shown = media_type[:60].decode("latin-1") or "missing"
            raise ReviewError(400, f"content-type must be application/json, not {shown}")
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > LARGEST_BODY:
            raise _too_large()
        received, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise _Gone
            before, more = len(received), message.get("more_body", False)
            received += message.get("body", b"")
            if len(received) > LARGEST_BODY:
                raise _too_large()
            if before <= LARGE < len(received):
                await held.enter_async_context(self._large)
        return bytes(received)


class _Gone(Exception):
    """The client closed its connection before its request was complete."""


def _line(status: int, text: str) -> Reply:
    return status, b"text/plain; charset=utf-8", f"{text}\n".encode()


async def _send(send: Send, reply: Reply) -> None:
    status, media_type, body = reply
    headers = [(b"content-type", media_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _too_large() -> ReviewError:
    return ReviewError(413, f"the body must not be larger than {LARGEST_BODY} bytes")


async def _judged(question: Review, handler: Handler, deadline: float) -> Answer:
    if question.operation not in (CREATE, UPDATE):
        return Answer()
    name = _name(question.obj)
    try:
        async with asyncio.timeout_at(deadline):
            return await handler(question)
    except TimeoutError:
        _log.warning("no answer in time", kind=question.kind, name=name)
        return Answer(f"{question.kind} {name} could not be checked in time, try again", UNAVAILABLE)
    except Exception:
        _log.exception("the webhook failed", kind=question.kind, name=name, uid=question.uid)
        return Answer(
            f"{question.kind} {name} could not be checked: an error in trainsnap, see its log", INTERNAL_ERROR
        )


def _seconds(query: bytes) -> float:
    """How long an answer may take, by the API server's own parameter (a Go duration: ``timeout=10s``)."""
    match = _TIMEOUT.fullmatch(query)
    if match is None:
        return LONGEST_SECONDS
    given = min(int(match[1] or 0) * 60 + float(match[2]), MOST_SECONDS)
    return max(given - MARGIN_SECONDS, given / 2)


def _name(obj: JSON) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return repr(name) if isinstance(name, str) and len(name) < 254 else "without a name"
