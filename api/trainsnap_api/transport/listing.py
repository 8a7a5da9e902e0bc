# SPDX-License-Identifier: Apache-2.0
"""Lists in pages, with the resourceVersion of the list, which kr8s throws away and a watch without gaps needs.

Used by ``Transport.pages`` and ``Transport.list``. Keeps every item as raw bytes; decoding is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trainsnap_api.transport.call import Call, query
from trainsnap_api.transport.errors import Expired, MalformedResponse
from trainsnap_api.transport.response import RawPage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from trainsnap_api.transport.call import Caller
    from trainsnap_api.transport.resources import Resource


class _ListMeta(msgspec.Struct):
    resource_version: str | None = msgspec.field(name="resourceVersion", default=None)
    continue_: str | None = msgspec.field(name="continue", default=None)
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_decoder = msgspec.json.Decoder(_List)


async def pages(
    caller: Caller,
    resource: Resource,
    namespace: str | None,
    *,
    label_selector: str | None,
    field_selector: str | None,
    page_size: int,
    on_restart: Callable[[], None] | None,
) -> AsyncGenerator[RawPage, None]:
    """The pages of one consistent list.

    The server keeps the snapshot behind a continue token for about five minutes; a list that takes longer is answered
    410. Then, with ``on_restart``, that is called (the consumer drops what it has) and the list starts again with pages
    ten times as large, and at last with a single page, which cannot expire. Without it, Expired is raised.
    Continuing "inconsistently", which the server offers, is not taken: what was deleted in between would stay for ever
    in the consumer's cache.
    """
    sizes = [page_size, page_size * 10, 0] if page_size else [0]
    for size in sizes:
        try:
            async for page in _once(caller, resource, namespace, label_selector, field_selector, size):
                yield page
            return
        except Expired:
            if on_restart is None or size == 0:
                raise
            on_restart()


async def _once(
    caller: Caller,
    resource: Resource,
    namespace: str | None,
    label_selector: str | None,
    field_selector: str | None,
    limit: int,
) -> AsyncGenerator[RawPage, None]:
    path = resource.path(namespace)
    token, version = None, None
    while True:
        params = query(
            {
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
                "limit": limit or None,
                "continue": token,
            }
        )
        response = await caller.call(
            Call("GET", path, params, idempotent=True), attempt_within=caller.settings.list_timeout
        )
        try:
            decoded = _decoder.decode(response.content)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedResponse(f"GET {path}: the answer is not a list: {error}") from error
        version = version or decoded.metadata.resource_version
        if not version:
            raise MalformedResponse(f"GET {path}: the list has no resourceVersion")
        yield RawPage(decoded.items or [], version, decoded.metadata.remaining)
        token = decoded.metadata.continue_
        if not token:
            return
