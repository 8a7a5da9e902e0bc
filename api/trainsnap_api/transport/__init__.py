# SPDX-License-Identifier: Apache-2.0
"""Talking to a Kubernetes API server: credentials, requests, lists, watches, server-side apply.

The only part of the project that knows kr8s and HTTP. Start at ``transport.py`` (connecting, and the verbs that write)
and ``reading.py`` (those that read); ``call.py`` makes one call (limit, retries, 401), ``engine.py`` sends it,
``credentials.py`` says as whom, ``listing.py`` and ``watch.py`` read collections, ``errors.py`` names what can go
wrong, ``answers.py`` says which answer means what.
"""

from __future__ import annotations

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
from trainsnap_api.transport.resources import Resource
from trainsnap_api.transport.response import (
    JSON,
    ObjectList,
    RawPage,
    Response,
    ServiceAccountToken,
    WatchEvent,
)
from trainsnap_api.transport.retry import RetryPolicy
from trainsnap_api.transport.settings import TransportSettings
from trainsnap_api.transport.transport import Transport

__all__ = [
    "JSON",
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
    "KindNotServed",
    "MalformedResponse",
    "NotFound",
    "ObjectList",
    "ObjectRefused",
    "RawPage",
    "Resource",
    "Response",
    "ResponseTooLarge",
    "RetryPolicy",
    "ServerTimeout",
    "ServiceAccountToken",
    "TimedOut",
    "TooLarge",
    "TooManyRequests",
    "Transport",
    "TransportClosed",
    "TransportError",
    "TransportSettings",
    "Unauthorized",
    "Unavailable",
    "UnknownFields",
    "WatchEvent",
]
