# SPDX-License-Identifier: Apache-2.0
"""Asks the API server whether a caller may see the metrics, as `metrics.auth` has it.

Wraps the metrics application. The caller's token is reviewed (TokenReview), and its user has to have the right to
``get`` the path as a non-resource URL (SubjectAccessReview), as with controller-runtime: the same ClusterRole with
``nonResourceURLs: [/metrics]`` works for both. Answers are kept for a short time; tokens are not, only their hash.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from trainsnap_api.transport import TransportError
from trainsnap_controller.observe.clock import Clock, SystemClock

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

JSON = dict[str, Any]
TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PATH: Final = "/metrics"
KEEP_SECONDS: Final = 60.0
"""A right that is taken away works for so long at most."""
KEEP_ANSWERS: Final = 1000
ASK_SECONDS: Final = 5.0
ASK_AT_ONCE: Final = 4
"""Tokens that are asked about at the same time: anybody can send any number of them."""

_log = structlog.stdlib.get_logger(__name__)


class Reply(Protocol):
    """An answer of the API server."""

    def json(self) -> Any: ...


class Requests(Protocol):
    """The part of the transport that is needed here."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: JSON,
        timeout: float | None,  # noqa: ASYNC109 - the transport's own
        idempotent: bool | None,
    ) -> Reply: ...


class Guarded:
    """An ASGI application that only lets through whom the API server lets through.

    Args:
        app: answers at ``/metrics``.
        api: asks; not the connection of the controllers, whose limit of requests strangers could use up.
    """

    def __init__(self, app: ASGIApp, api: Requests, *, clock: Clock | None = None) -> None:
        self._app = app
        self._api = api
        self._clock = clock or SystemClock()
        self._answers: dict[bytes, tuple[float, int]] = {}
        self._asking = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, request: Request) -> Response | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return PlainTextResponse("a bearer token is needed\n", 401, {"WWW-Authenticate": "Bearer"})
        # Not `request.url`: a Host header with a slash in it changes the path there, and another right would be asked.
        path = request.scope["path"]
        if path != PATH:
            return PlainTextResponse("there is nothing at this path\n", 404)
        key = hashlib.sha256(token.encode()).digest()
        asked, status = self._answers.get(key, (0.0, 0))
        if not status or self._clock.now() - asked > KEEP_SECONDS:
            if self._asking >= ASK_AT_ONCE:
                return PlainTextResponse("too many tokens are being asked about, try again\n", 503)
            self._asking += 1
            try:
                status = await self._ask(token.strip())
            except TransportError as error:
                _log.warning("the API server does not say who may see metrics", error=str(error))
                return PlainTextResponse("the API server cannot be asked who may see this\n", 503)
            finally:
                self._asking -= 1
            if len(self._answers) >= KEEP_ANSWERS:
                self._answers.clear()
            self._answers[key] = (self._clock.now(), status)
        if status == 401:
            return PlainTextResponse("the token is not valid\n", 401, {"WWW-Authenticate": "Bearer"})
        return PlainTextResponse(f"not allowed to get {path}\n", 403) if status == 403 else None

    async def _ask(self, token: str) -> int:
        """200, 401 or 403."""
        review = await self._post(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not review.get("authenticated"):
            return 401
        user = review.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": PATH, "verb": "get"},
        }
        access = await self._post(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return 200 if access.get("allowed") else 403

    async def _post(self, path: str, version: str, kind: str, spec: JSON) -> JSON:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        reply = await self._api.request("POST", path, body=body, timeout=ASK_SECONDS, idempotent=True)
        status: JSON = reply.json().get("status") or {}
        return status
