# SPDX-License-Identifier: Apache-2.0
"""What can go wrong when talking to an API server, named after what a caller can do about it.

Every module of the transport raises these, and nothing of the HTTP library leaks out. Building an error never reads
from the network; the texts are one line each, fit for a condition, an event or a terminal.
"""

from __future__ import annotations

import email.utils
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainsnap_api.transport.response import JSON

_EXCERPT = 300
"""Characters of a foreign (non-Status) body that are worth repeating in an error message."""


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


class BadRequest(ApiError):
    """400: the request itself is wrong."""

    default_status, default_reason = 400, "BadRequest"


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


class Invalid(ApiError):
    """422: refused by a schema, a CEL rule, or a validating webhook; ``causes`` names the fields."""

    default_status, default_reason = 422, "Invalid"


class TooLarge(ApiError):
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
    """502 or 503: the server, or something in front of it, is not ready."""

    default_status, default_reason = 503, "ServiceUnavailable"


_BY_REASON: dict[str, type[ApiError]] = {
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Gone": Expired,
    "Expired": Expired,
    "Invalid": Invalid,
    "RequestEntityTooLarge": TooLarge,
    "TooManyRequests": TooManyRequests,
    "Timeout": ServerTimeout,
    "ServerTimeout": ServerTimeout,
    "InternalError": InternalError,
    "ServiceUnavailable": Unavailable,
}

_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    502: Unavailable,
    503: Unavailable,
    504: ServerTimeout,
}

_STORAGE_LIMIT = ("etcdserver: request is too large", "trying to send message larger than max")
"""How etcd and its client refuse an object: the API server passes both on as a plain 500."""


def from_response(
    status: int,
    headers: Mapping[str, str],
    content: bytes,
    *,
    method: str,
    path: str,
    wall_clock: Callable[[], float] = time.time,
) -> ApiError:
    """The error for an HTTP answer that is not a success; ``headers`` with lower-case names.

    Works for every body: a Status (also on 5xx, also without ``message``), plain text, HTML of a proxy, nothing.
    """
    body = _status_object(content)
    retry_after = parse_retry_after(headers.get("retry-after"), wall_clock)
    if status == 404 and not _names_an_object(body):
        return KindNotServed(f"the server does not serve {path}", method=method, path=path)
    if body is not None:
        return _build(body, status, retry_after=retry_after, method=method, path=path)
    text = _excerpt(content)
    message = f"the server answered {status} to {method} {path}" + (f": {text}" if text else "")
    reason = None if status in _BY_STATUS else ""
    cls = _BY_STATUS.get(status, ApiError)
    return cls(message, status=status, reason=reason, retry_after=retry_after, method=method, path=path)


def from_status(body: object, *, method: str, path: str) -> ApiError:
    """The error for the object of a watch's ERROR event; anything that is not a Status becomes an InternalError."""
    if not isinstance(body, dict):
        return InternalError("the watch reported an error without a Status", method=method, path=path)
    code = body.get("code")
    return _build(body, code if isinstance(code, int) and code > 0 else 500, retry_after=None, method=method, path=path)


def parse_retry_after(value: str | None, wall_clock: Callable[[], float] = time.time) -> float | None:
    """Seconds to wait by a ``Retry-After`` header (RFC 9110: seconds or a date); None when absent or unreadable."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - wall_clock()
        except (ValueError, TypeError, OverflowError):
            return None
    if seconds != seconds or seconds == float("inf"):
        return None
    return max(0.0, seconds)


def _build(body: JSON, status: int, *, retry_after: float | None, method: str, path: str) -> ApiError:
    reason = _text(body.get("reason"))
    details = body.get("details")
    details = details if isinstance(details, dict) else {}
    message = _text(body.get("message")) or f"the server answered {status} {reason}".rstrip() + f" to {method} {path}"
    if retry_after is None:
        seconds = details.get("retryAfterSeconds")
        retry_after = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None
    cls = _BY_REASON.get(reason) or _BY_STATUS.get(status, ApiError)
    if status == 500 and any(text in message for text in _STORAGE_LIMIT):
        cls = TooLarge
    return cls(message, status=status, reason=reason or None, causes=_causes(details), retry_after=retry_after,
               method=method, path=path, details=details)  # fmt: skip


def _names_an_object(body: JSON | None) -> bool:
    """Whether a 404 is about an object. Seen on 1.36: a missing object is named in ``details``; a path that is not
    served gets plain text from the mux and from CRD groups, and a Status with empty details from built-in groups."""
    details = (body or {}).get("details")
    return isinstance(details, dict) and bool(details.get("name"))


def _causes(details: JSON) -> tuple[Cause, ...]:
    causes = details.get("causes")
    return tuple(
        Cause(_text(cause.get("field")), _text(cause.get("reason")), _text(cause.get("message")))
        for cause in (causes if isinstance(causes, list) else ())
        if isinstance(cause, dict)
    )


def _status_object(content: bytes) -> JSON | None:
    try:
        body: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return body if isinstance(body, dict) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _excerpt(content: bytes) -> str:
    text = " ".join(content[: 4 * _EXCERPT].decode("utf-8", "replace").split())
    text = "".join(c for c in text if c.isprintable())
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "..."
