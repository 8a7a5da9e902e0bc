# SPDX-License-Identifier: Apache-2.0
"""From an answer of the API server to the error that says what a caller can do about it. Pure; asked by ``call.py`` and
``watch.py``.

What is wrong with an object comes as 400, 422 or 500, depending on which part of the server sees it first; here it
becomes one kind of error, whatever the number. A Status speaks in its own words; of any other body one line is kept.
"""

from __future__ import annotations

import email.utils
import re
import time
from typing import TYPE_CHECKING, Any

import msgspec

from trainsnap_api.transport.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    KindNotServed,
    NotFound,
    ServerTimeout,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnknownFields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainsnap_api.transport.response import JSON

_EXCERPT = 300
"""Characters of a foreign (non-Status) body that are worth repeating in an error message."""

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

_MUX = b"404 page not found"
"""What the API server itself says of a path that it does not serve, when it says so without a Status."""
_LONGEST_WAIT = 86_400.0

_STRICT = "strict decoding error: "
_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
_NOT_TYPED = re.compile(
    r"failed to create typed patch object \(.*?, Kind=\w+\): \.(?P<field>.+?): (?P<problem>.+)", re.DOTALL
)
"""kube-apiserver's answer (seen in 1.36) to an apply of which a field does not fit the schema: a 500, though nothing is
wrong with the server. A wrong type, a field that is not there, a list that has a key twice."""


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
    if status == 404 and (content.strip() == _MUX if body is None else not _names_an_object(body)):
        return KindNotServed(f"the server does not serve {path}", method=method, path=path)
    if body is not None:
        return _build(body, status, retry_after=retry_after, method=method, path=path)
    text = _excerpt(content)
    message = f"the server answered {status} to {method} {path}" + (f": {text}" if text else "")
    reason = None if status in _BY_STATUS else ""
    # Something in front of the API server says 404: nothing is known about the object, nor about its kind.
    cls = Unavailable if status == 404 else _BY_STATUS.get(status, ApiError)
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
        retry_after = _wait(details.get("retryAfterSeconds"))
    cls = _BY_REASON.get(reason) or _BY_STATUS.get(status, ApiError)
    if status == 500 and any(text in message for text in _STORAGE_LIMIT):
        cls = TooLarge
    causes = _causes(details)
    known: dict[str, Any] = {"status": status, "reason": reason or None, "retry_after": retry_after}
    known |= {"method": method, "path": path, "details": details}
    if (at := message.find(_STRICT)) >= 0:
        if status == 422:
            # To a patch, the server repeats the whole object before this, in the only cause too.
            message, causes = message[at:], ()
        fields = tuple(dict.fromkeys(_UNKNOWN.findall(message, message.index(_STRICT))))
        return UnknownFields(message, fields=fields, causes=causes, **known)
    if status == 500 and (typed := _NOT_TYPED.fullmatch(message)):
        field, problem = typed["field"], typed["problem"]
        if problem == "field not declared in schema":
            return UnknownFields(message, fields=(field,), causes=causes, **known)
        kind = "FieldValueDuplicate" if problem.startswith("duplicate") else "FieldValueTypeInvalid"
        return Invalid(message, causes=(Cause(field, kind, problem),), **known)
    return cls(message, causes=causes, **known)


def _wait(seconds: object) -> float | None:
    # Compared before it is a float, which holds no number of 400 digits.
    return float(seconds) if isinstance(seconds, int | float) and 0 < seconds < _LONGEST_WAIT else None


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
