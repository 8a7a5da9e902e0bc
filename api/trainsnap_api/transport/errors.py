# SPDX-License-Identifier: Apache-2.0
"""What can go wrong when talking to an API server, named after what a caller can do about it.

Every module of the transport raises these, and nothing of the HTTP library leaks out. Which answer becomes which error
is said in ``answers.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from trainsnap_api.transport.response import JSON


class TransportError(Exception):
    """Anything that a call through the transport can raise, apart from misuse (ValueError, TypeError)."""


class ConfigurationError(TransportError):
    """The cluster cannot be reached as configured: kubeconfig, context, credentials, address. Do not repeat."""


class Disconnected(TransportError):
    """No complete answer arrived. ``sent`` False: the server never saw the request. True: it may have acted on it."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class TimedOut(Disconnected):
    """The time allowed for an answer, a connection, or the next byte of a watch ran out."""


class TransportClosed(Disconnected):
    """The transport was closed before; the request was not sent. Never repeated."""


class MalformedResponse(Disconnected):
    """The answer was complete but is not what the Kubernetes API sends (broken JSON, an unknown watch event)."""


class ResponseTooLarge(Disconnected):
    """The answer, or one watch event, is larger than the settings allow; the rest of it was not read."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of ``details.causes`` of a Status: which field, which rule, in the server's words."""

    field: str
    reason: str
    message: str


class ApiError(TransportError):
    """The API server answered with an error; ``str()`` is its own message.

    ``status`` is the HTTP code (of an ERROR event: the code in the Status), ``reason`` the machine-readable word of the
    Status or "" when the body was none, ``retry_after`` seconds or None, ``details`` the Status's details or {}.
    """

    default_status: ClassVar[int] = 500
    default_reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str | None = None,
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
        method: str = "",
        path: str = "",
        details: JSON | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = self.default_status if status is None else status
        self.reason = self.default_reason if reason is None else reason
        self.causes = causes
        self.retry_after = retry_after
        self.method = method
        self.path = path
        self.details: JSON = details or {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.status} {self.reason}: {self.message!r}, {self.method} {self.path})"


class ObjectRefused(ApiError):
    """A write was refused for what is in the object: the same object is refused again, by this server."""


class BadRequest(ObjectRefused):
    """400: the request itself is wrong."""

    default_status, default_reason = 400, "BadRequest"


class UnknownFields(BadRequest):
    """Strict field validation: the server does not know ``fields``. It is older than what wrote them, or newer and has
    dropped them, or they are misspelled. Nothing was stored. ``status`` is 400 for a create or replace, 422 for a
    patch, 500 for an apply: so the server has it."""

    def __init__(self, message: str, *, fields: tuple[str, ...] = (), **known: Any) -> None:
        super().__init__(message, **known)
        self.fields = fields


class Unauthorized(ApiError):
    """401, also after the credentials were renewed once."""

    default_status, default_reason = 401, "Unauthorized"


class Forbidden(ApiError):
    """403: an answer like any other (RBAC, quota, admission); nothing is renewed or closed because of it."""

    default_status, default_reason = 403, "Forbidden"


class NotFound(ApiError):
    """404: no object of that name."""

    default_status, default_reason = 404, "NotFound"


class KindNotServed(NotFound):
    """404 for the whole resource path: the CRD is not installed, or not in this version."""


class InvalidName(NotFound):
    """The name cannot be part of a URL path (empty, ``..``, with a slash), so no object has it. Nothing was sent."""


class AlreadyExists(ApiError):
    """409 on create: an object of that name is there."""

    default_status, default_reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """409: another resourceVersion, a failed precondition, or a field owned by another manager. Read again."""

    default_status, default_reason = 409, "Conflict"


class Expired(ApiError):
    """410: the resourceVersion or continue token is too old. List again; never repeat with the same one."""

    default_status, default_reason = 410, "Expired"


class Invalid(ObjectRefused):
    """422, or the 500 of an apply: refused by a schema, a CEL rule, or a validating webhook; ``causes`` names the
    fields."""

    default_status, default_reason = 422, "Invalid"


class TooLarge(ObjectRefused):
    """413, or the storage's refusal of an object that is too large for it."""

    default_status, default_reason = 413, "RequestEntityTooLarge"


class TooManyRequests(ApiError):
    """429, after the retries that the policy allows; ``retry_after`` says when to come back."""

    default_status, default_reason = 429, "TooManyRequests"


class ServerTimeout(ApiError):
    """504, or a Status with reason Timeout or ServerTimeout: the operation may or may not have been carried out."""

    default_status, default_reason = 504, "Timeout"


class InternalError(ApiError):
    """500."""

    default_status, default_reason = 500, "InternalError"


class Unavailable(ApiError):
    """502 or 503, or a 404 that is not the API server's: the server, or something in front of it, is not ready."""

    default_status, default_reason = 503, "ServiceUnavailable"
