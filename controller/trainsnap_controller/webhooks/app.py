# SPDX-License-Identifier: Apache-2.0
"""The webhook server: an ASGI application with one path for each webhook.

Runs in every replica behind TLS. It answers every question within the time that the API server gives it and never with
a traceback: what cannot be decoded is 400 with one line, what breaks inside is an answer with code 500, and what
cannot be read in time is an answer that says so.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from trainsnap_api.transport import Resource
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.webhooks import paths, runtimes, times
from trainsnap_controller.webhooks.reads import Api, SharedReads
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

JSON = dict[str, Any]
Handler = Callable[[Review], Awaitable[Answer]]

LARGEST_BODY: Final = 7 * 1024 * 1024
"""Bytes. Two objects of the 3 MiB that the API server takes in a request, and what is around them."""
LONGEST_SECONDS: Final = 9.0
"""For an answer, when the request does not say how long the API server waits; its default is 10 s."""
MARGIN_SECONDS: Final = 0.5
"""How much earlier than the API server we stop waiting, so that the user gets our words and not its own."""
_TIMEOUT: Final = re.compile(r"(?:(\d+)m)?(\d+(?:\.\d+)?)s")

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


def webhook_app(
    handling: Mapping[str, Handler], metrics: WebhookMetrics, *, clock: Callable[[], float] = time.monotonic
) -> Starlette:
    """The ASGI application. ``handling`` has a handler for each of ``paths.KINDS``."""

    def endpoint(path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            started = clock()
            metrics.busy(path, 1)
            response: Response | None = None
            try:
                response = await _respond(request, paths.KINDS[path], handler)
                return response
            finally:
                metrics.busy(path, -1)
                metrics.answered(path, 500 if response is None else response.status_code, clock() - started)

        return answer

    return Starlette(
        routes=[Route(path, endpoint(path, handler), methods=["POST"]) for path, handler in handling.items()]
    )


async def _respond(request: Request, kind: str, handler: Handler) -> Response:
    deadline = asyncio.get_running_loop().time() + _seconds(request.query_params.get("timeout", ""))
    try:
        async with asyncio.timeout_at(deadline):
            question = decode(await _body(request))
    except TimeoutError:
        return PlainTextResponse("the body did not arrive in time\n", 408)
    except ClientDisconnect:
        return PlainTextResponse("the client went away\n", 400)
    except ReviewError as error:
        return PlainTextResponse(f"{error}\n", error.status)
    if question.kind != kind:
        return PlainTextResponse(f"request.kind.kind: only {kind} is reviewed here, not {question.kind[:60]!r}\n", 400)
    answer = await _judged(question, handler, deadline)
    return Response(encode(question.uid, answer), media_type="application/json")


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


async def _body(request: Request) -> bytes:
    """The body. Raises ``ReviewError`` before more than the limit was kept."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ReviewError(400, f"content-type must be application/json, not {media_type[:60] or 'missing'}")
    declared = request.headers.get("content-length", "")
    received = bytearray()
    if not (declared.isascii() and declared.isdigit() and int(declared) > LARGEST_BODY):
        async for chunk in request.stream():
            received += chunk
            if len(received) > LARGEST_BODY:
                break
        else:
            return bytes(received)
    raise ReviewError(413, f"the body must not be larger than {LARGEST_BODY} bytes")


def _seconds(text: str) -> float:
    """How long an answer may take, by the API server's own parameter (a Go duration such as ``10s``)."""
    match = _TIMEOUT.fullmatch(text)
    if match is None:
        return LONGEST_SECONDS
    given = int(match[1] or 0) * 60 + float(match[2])
    return max(given - MARGIN_SECONDS, given / 2)


def _name(obj: JSON) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return repr(name) if isinstance(name, str) and len(name) < 254 else "without a name"
