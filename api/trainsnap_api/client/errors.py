# SPDX-License-Identifier: Apache-2.0
"""What the client can raise: the errors of the transport, and a few that only make sense for typed objects.

All of them derive from TransportError, so one ``except`` catches what the cluster can do to a caller; misuse is a
ValueError or TypeError, raised before anything is sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from trainsnap_api.transport.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    ConfigurationError,
    Conflict,
    Disconnected,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    InvalidName,
    KindNotServed,
    MalformedResponse,
    NotFound,
    ResponseTooLarge,
    ServerTimeout,
    TimedOut,
    TooLarge,
    TooManyRequests,
    TransportClosed,
    TransportError,
    Unauthorized,
    Unavailable,
)

if TYPE_CHECKING:
    from pydantic import ValidationError

    from trainsnap_api.client.values import Progress

E = TypeVar("E", bound=ApiError)

__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Cause",
    "ConfigurationError",
    "Conflict",
    "Disconnected",
    "Expired",
    "Forbidden",
    "InternalError",
    "Invalid",
    "InvalidName",
    "JobDeleted",
    "JobEnded",
    "JobFailed",
    "KindNotServed",
    "MalformedResponse",
    "NotFound",
    "NotUnderstood",
    "ResponseTooLarge",
    "ServerTimeout",
    "TimedOut",
    "TooLarge",
    "TooManyRequests",
    "TransportClosed",
    "TransportError",
    "Unauthorized",
    "Unavailable",
    "UnknownFields",
    "WaitTimedOut",
]


class UnknownFields(BadRequest):
    """Strict field validation: the server does not know ``fields``. It is older than what wrote them, or newer and has
    dropped them, or they are misspelled. Nothing was stored. ``status`` is 400 for a create or replace, 422 for a
    patch, 500 for an apply: so the server has it."""

    fields: tuple[str, ...] = ()


_NOT_TYPED = re.compile(
    r"failed to create typed patch object \(.*?, Kind=\w+\): \.(?P<field>.+?): (?P<problem>.+)", re.DOTALL
)
"""The server's answer to an apply of which a field does not fit the schema."""


def refused(error: ApiError) -> ApiError:
    """The answer to a write as the class that says what is wrong; the same error when it is that already.

    What is wrong with an object comes as 400, 422 or 500, depending on which part of the server sees it first.
    """
    what = error.message
    at = what.find("strict decoding error: ")
    if at >= 0:
        # To a patch, the server repeats the whole object before this.
        message = what[at:] if isinstance(error, Invalid) else what
        return _as_unknown(error, message, re.findall(r'unknown field "([^"]+)"', what[at:]))
    typed = _NOT_TYPED.fullmatch(what)
    if typed is None:
        return error
    field, problem = typed["field"], typed["problem"]
    if problem == "field not declared in schema":
        return _as_unknown(error, what, [field])
    reason = "FieldValueDuplicate" if problem.startswith("duplicate") else "FieldValueTypeInvalid"
    return _again(Invalid, error, what, (Cause(field, reason, problem),))


def _as_unknown(error: ApiError, message: str, fields: list[str]) -> UnknownFields:
    found = _again(UnknownFields, error, message, () if isinstance(error, Invalid) else error.causes)
    found.fields = tuple(dict.fromkeys(fields))
    return found


def _again(cls: type[E], error: ApiError, message: str, causes: tuple[Cause, ...]) -> E:
    return cls(
        message,
        status=error.status,
        reason=error.reason,
        causes=causes,
        method=error.method,
        path=error.path,
        details=error.details,
    )


class NotUnderstood(MalformedResponse):
    """The server holds an object whose known fields have other types than here: it is newer than this client."""

    @classmethod
    def of(cls, what: str, error: ValidationError) -> NotUnderstood:
        """Names the first field that does not fit."""
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        return cls(f"{what}: {field}: {first['msg']}{more}")


class _WaitError(TransportError):
    """The end of a wait that did not come to what was waited for."""

    def __init__(self, message: str, progress: Progress) -> None:
        super().__init__(message)
        self.progress = progress

    def __reduce__(self) -> tuple[Any, ...]:
        # Process pools send errors to another process; only what is in ``args`` would be passed to ``__init__``.
        return type(self), (str(self), self.progress), self.__dict__


class JobEnded(_WaitError):
    """The job reached ``progress.state``, which it never leaves, and it is not a state that was waited for."""


class JobFailed(JobEnded):
    """The job failed; the message says why, in the operator's words."""


class JobDeleted(_WaitError):
    """The job was deleted while it was waited for, or replaced by another one of its name. ``progress``: its last."""


class WaitTimedOut(_WaitError, TimeoutError):
    """The time allowed is over; ``progress`` is what was seen last. The job itself goes on."""
