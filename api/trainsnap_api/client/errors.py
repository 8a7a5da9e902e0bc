# SPDX-License-Identifier: Apache-2.0
"""What the client can raise: the errors of the transport, and a few that only make sense for typed objects.

All of them derive from TransportError, so one ``except`` catches what the cluster can do to a caller; misuse is a
ValueError or TypeError, raised before anything is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    ObjectRefused,
    ResponseTooLarge,
    ServerTimeout,
    TimedOut,
    TooLarge,
    TooManyRequests,
    TransportClosed,
    TransportError,
    Unauthorized,
    Unavailable,
    UnknownFields,
)

if TYPE_CHECKING:
    from pydantic import ValidationError

    from trainsnap_api.client.values import Progress

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
    "ObjectRefused",
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
