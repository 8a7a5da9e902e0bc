# SPDX-License-Identifier: Apache-2.0
"""Answers the requests of trainer pods. An ASGI application behind TLS, in every replica, without a leader.

The order is part of the contract: size, route, authorization, decoding, writing. What goes wrong is answered with the
fields of a Kubernetes ``Status``, in the reference's words; the reasons stay in the log.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable
from typing import Any, Final, Protocol

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from trainsnap_api.transport import InvalidName, NotFound, ObjectRefused, Resource, TransportError
from trainsnap_api.transport.resources import TRAIN_JOB
from trainsnap_controller.runtime.plugins.trainjobstatus import audience
from trainsnap_controller.statusserver import report
from trainsnap_controller.statusserver.issuer import NotKnown

JSON = dict[str, Any]

FIELD_MANAGER: Final = "trainer-status"
"""The reference's: a report by either operator replaces the one before."""
LARGEST_BODY: Final = 65536
READ_SECONDS: Final = 10.0
"""For the body to arrive."""
WRITE_SECONDS: Final = 10.0
"""For the API server to answer, the wait for our own rate limit included."""
AT_ONCE: Final = 2
"""Reports of one job that are written at the same time. All jobs share our rate limit; one that never pauses must not
keep the others waiting until their time is up."""

_HOLE: Final = "([^/]+)"
_ROUTE: Final = re.compile("/apis/" + re.escape(audience("<", "<")).replace("<", _HOLE))

_log = structlog.stdlib.get_logger(__name__)


class Writes(Protocol):
    """The request that is needed."""

    async def apply(
        self, resource: Resource, obj: JSON, *, field_manager: str, force: bool, subresource: str | None = None
    ) -> JSON: ...


class Authorizes(Protocol):
    """Who may report for what."""

    async def allows(self, header: str, namespace: str, name: str) -> bool: ...


class Refused(Exception):
    """The answer to a request that is not carried out."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body = {"status": "Failure", "message": message, "reason": reason, "code": code}


class StatusApp:
    """The application.

    Args:
        api: writes; has a rate limit of its own, so that chatty pods do not slow down anything else.
        authorizer: decides by the bearer's token.
    """

    def __init__(self, api: Writes, authorizer: Authorizes) -> None:
        self._api = api
        self._authorizer = authorizer
        self._writing: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = JSONResponse(await self._answer(request))
        except Refused as refused:
            response = JSONResponse(refused.body, refused.code)
        except Exception:
            _log.exception("a report failed", path=scope["path"])
            response = JSONResponse(_internal().body, 500)
        _log.debug("report", path=scope["path"], status=response.status_code)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> JSON:
        """What is sent back with 200: the report as it was understood. Raises Refused."""
        declared = request.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > LARGEST_BODY:
            raise Refused(413, "RequestEntityTooLarge", "Payload too large")
        match = _ROUTE.fullmatch(request.scope["path"])
        if match is None or request.method != "POST":
            raise Refused(404, "NotFound", "Not found")
        namespace, name = match.groups()
        await self._authorize(request, namespace, name)
        try:
            reported = report.decode(await _body(request))
        except report.NotDecodable as error:
            _log.info("report not understood", namespace=namespace, name=name, reason=str(error))
            raise Refused(422, "Invalid", "Invalid payload") from error
        if reported is None:
            return {}
        # A missing time is sent as null, as the reference does: without it an empty report is no object to the API
        # server, and its words are about that instead of about the time.
        reported = {**reported, "lastUpdatedTime": reported.get("lastUpdatedTime")}
        await self._write_in_turn(namespace, name, reported)
        return {"trainerStatus": reported}

    async def _authorize(self, request: Request, namespace: str, name: str) -> None:
        try:
            allowed = await self._authorizer.allows(request.headers.get("authorization", ""), namespace, name)
        except NotKnown as error:
            _log.warning("a report cannot be authorized", namespace=namespace, name=name, error=str(error))
            raise _internal() from error
        if not allowed:
            raise Refused(403, "Forbidden", "Forbidden")

    async def _write_in_turn(self, namespace: str, name: str, reported: JSON) -> None:
        job = (namespace, name)
        if self._writing[job] >= AT_ONCE:
            raise Refused(429, "TooManyRequests", "Reports of this train job are still being written")
        self._writing[job] += 1
        try:
            await _within_seconds(self._write(namespace, name, reported))
        finally:
            self._writing[job] -= 1
            if not self._writing[job]:
                del self._writing[job]

    async def _write(self, namespace: str, name: str, reported: JSON) -> None:
        document = {"metadata": {"namespace": namespace, "name": name}, "status": {"trainerStatus": reported}}
        try:
            await self._api.apply(TRAIN_JOB, document, field_manager=FIELD_MANAGER, force=True, subresource="status")
        except (NotFound, InvalidName) as error:
            raise Refused(404, "NotFound", "Train job not found") from error
        except ObjectRefused as error:
            raise Refused(422, "Invalid", error.message) from error
        except TransportError as error:
            _log.warning("a report was not written", namespace=namespace, name=name, error=str(error))
            raise _internal() from error


async def _body(request: Request) -> bytes:
    """The body. Raises NotDecodable for one that is too long, too slow or not complete."""
    received = bytearray()
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.stream():
                received += chunk
                if len(received) > LARGEST_BODY:
                    raise report.NotDecodable(f"is larger than {LARGEST_BODY} bytes")
    except TimeoutError as error:
        raise report.NotDecodable(f"did not arrive within {READ_SECONDS:g} s") from error
    except ClientDisconnect as error:
        raise report.NotDecodable("did not arrive whole") from error
    return bytes(received)


async def _within_seconds(write: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await write
    except TimeoutError as error:
        _log.warning("a report was not written in time")
        raise _internal() from error


def _internal() -> Refused:
    return Refused(500, "InternalError", "Internal error")
