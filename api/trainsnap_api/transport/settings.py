# SPDX-License-Identifier: Apache-2.0
"""What a caller may tune about a transport. Values only; nothing is read from the environment here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from trainsnap_api.transport.retry import RetryPolicy

RequestHook = Callable[[str, str, int, float], None]
"""``(method, path template, HTTP status or 0 when there was no answer, seconds)``, once per attempt. Watches report as
``WATCH``, with the seconds until the server accepted them. Must not block; what it raises is logged and dropped."""
WarningHook = Callable[[str], None]
"""One text of a ``Warning`` header of a successful answer: of a field or a runtime that is deprecated, say. Must not
block; what it raises is logged and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings:
    """Times in seconds, sizes in bytes."""

    user_agent: str | None = None
    """None: ``trainsnap/<version>``. A write without field manager gets the part before the slash as its manager."""

    qps: float | None = None
    """Requests a second in the long run, watches included; None or 0: no limit."""
    burst: int | None = None
    """Requests let through at once when ``qps`` is set; None: 1."""

    connect_timeout: float = 10.0
    """For a connection: waiting for a free one, TCP, TLS."""
    request_timeout: float = 30.0
    """For one attempt of a request, from the first byte sent to the last byte read. A call may make several."""
    list_timeout: float = 90.0
    """As ``request_timeout``, for one page of a list."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    watch_timeout: float = 290.0
    """How long the server is asked to keep a watch open; each one asks for this to twice this, so that they spread."""
    watch_grace: float = 15.0
    """A watch without a single byte for longer than it was asked to last, plus this, is dead."""

    max_concurrent_requests: int = 64
    """Requests in flight; the connection pool is larger, so that it is never what runs out."""
    max_watches: int = 128
    """Connections of the separate pool for watches."""
    max_response_bytes: int = 64 * 1024 * 1024
    """Of one answer, or one page of a list."""
    max_event_bytes: int = 16 * 1024 * 1024
    """Of one watch event. The storage's own limit for an object is 1.5 MiB unless changed."""

    token_max_age: float = 60.0
    """A token from a file or a provider is read again when it is older. The kubelet rotates at 80 % of an hour."""
    on_request: RequestHook | None = None
    on_warning: WarningHook | None = None
    """None: each text is logged as a warning, the first time that it comes."""
