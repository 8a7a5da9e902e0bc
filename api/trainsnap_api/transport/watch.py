# SPDX-License-Identifier: Apache-2.0
"""One watch request, read as bytes. Starting again, and listing again after Expired, belong to the reflector.

Lines are split at the byte 0x0A and nothing else: inside JSON strings there may be characters that count as line ends
in Unicode (U+0085, U+2028), which the server does not escape and any user can put into an annotation. The envelope is
decoded, the object inside stays raw.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from trainsnap_api.transport import answers
from trainsnap_api.transport.call import Call, query
from trainsnap_api.transport.errors import Disconnected, MalformedResponse, ResponseTooLarge
from trainsnap_api.transport.response import WatchEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from trainsnap_api.transport.call import Caller, Params
    from trainsnap_api.transport.resources import Resource


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decoder = msgspec.json.Decoder(_Envelope)
_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class Lines:
    """Cuts a byte stream into lines; ``limit`` bounds one line, so that a server cannot fill the memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> bool:
        """Whether the stream stopped inside a line."""
        return any(part.strip() for part in self._parts)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that ``chunk`` completes, without their ends; empty lines are left out."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._keep(chunk[start:end])
            line = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            start = end + 1
            if line.strip():
                yield line
        if start < len(chunk):
            self._keep(chunk[start:])

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise ResponseTooLarge(f"a watch event is larger than {self._limit} bytes")
        self._parts.append(part)


async def watch(
    caller: Caller,
    resource: Resource,
    namespace: str | None,
    *,
    resource_version: str,
    label_selector: str | None,
    field_selector: str | None,
    timeout_seconds: int | None,
    on_open: Callable[[], None] | None,
) -> AsyncGenerator[WatchEvent, None]:
    """The events after ``resource_version``, bookmarks included, until the server ends the watch.

    Raises Expired (410, whether as HTTP status or in the stream), the ApiError of any other ERROR event, Disconnected
    when the stream breaks, ends inside a line, or is silent for longer than the watch was asked to last.
    ``on_open`` is called once, when the server has accepted the watch.
    """
    seconds = timeout_seconds or int(caller.settings.watch_timeout * (1 + caller.random()))
    path = resource.path(namespace)
    params: Params = {
        "watch": True,
        "allowWatchBookmarks": True,
        "resourceVersion": resource_version,
        "timeoutSeconds": seconds,
        "labelSelector": label_selector,
        "fieldSelector": field_selector,
    }
    lines = Lines(caller.settings.max_event_bytes)
    idle = seconds + caller.settings.watch_grace
    async with caller.stream(Call("GET", path, query(params)), idle_timeout=idle) as stream:
        if on_open is not None:
            on_open()
        async with aclosing(stream.chunks()) as chunks:
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    yield _event(line, path)
    if lines.pending:
        raise Disconnected(f"watch {path}: the stream ended inside an event")


def _event(line: bytes, path: str) -> WatchEvent:
    try:
        envelope = _decoder.decode(line)
        if envelope.type in _TYPES:
            return WatchEvent(envelope.type, bytes(envelope.object))
        if envelope.type == "ERROR":
            raise answers.from_status(msgspec.json.decode(envelope.object), method="WATCH", path=path)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedResponse(f"watch {path}: an event is not readable: {error}") from error
    raise MalformedResponse(f"watch {path}: unknown event type {envelope.type[:50]!r}")
