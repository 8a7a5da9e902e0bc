# SPDX-License-Identifier: Apache-2.0
"""What a connection can ask for without changing anything: one call to any path, objects, lists, watches.

The lower half of ``Transport``, which adds the writes. It keeps no objects and never lists again by itself (that is the
reflector's).
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec

from trainsnap_api.transport import listing, paths, watch
from trainsnap_api.transport.call import APPLY, MERGE_PATCH, Call, Caller, query
from trainsnap_api.transport.errors import NotFound
from trainsnap_api.transport.response import JSON, ObjectList, RawPage, Response, WatchEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from trainsnap_api.transport.call import Params
    from trainsnap_api.transport.resources import Resource

_CONTENT_TYPE = "application/json"
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
_REPEATABLE_PATCHES = frozenset({APPLY, MERGE_PATCH})


class Reads:
    """The reading verbs on one connection."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def server(self) -> str:
        """The base URL of the API server."""
        return self._caller.engine.server

    @property
    def namespace(self) -> str:
        """The context's namespace, or the pod's own; ``default`` when nothing says."""
        return self._caller.credentials.access.namespace or "default"

    # -- any path -----------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: JSON | Sequence[Any] | bytes | None = None,
        content_type: str = _CONTENT_TYPE,
        accept: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the whole call, also its waits between attempts
        retry: bool = True,
        idempotent: bool | None = None,
    ) -> Response:
        """One call to an encoded absolute path; the answer when it is a 2xx, else its ApiError.

        ``accept`` is for the few paths that have no ``application/json``. ``timeout`` bounds the whole call in seconds,
        retries included. ``idempotent``: whether it may be repeated after
        it may have reached the server; None: reads, applies and merge patches may.
        """
        if idempotent is None:
            idempotent = method in _REPEATABLE or (method == "PATCH" and content_type in _REPEATABLE_PATCHES)
        content = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content_type} if content is not None else {}
        if accept is not None:
            headers["Accept"] = accept
        call = Call(method, paths.check(path), query(params), headers, content, idempotent)
        return await self._caller.call(call, within=timeout, retry=retry)

    async def server_version(self) -> JSON:
        """The server's ``/version``: ``gitVersion``, ``major``, ``minor``, ..."""
        return (await self.request("GET", "/version")).json()

    async def served(self, resource: Resource) -> bool:
        """Whether the server has this kind in this version right now: asks for the group version's resource list."""
        group_version = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        try:
            found = (await self.request("GET", group_version)).json().get("resources")
        except NotFound:
            return False
        return any(entry.get("name") == resource.plural for entry in found or [])

    # -- reading ------------------------------------------------------------------------------------------------------

    @overload
    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, raw: Literal[False] = False
    ) -> JSON: ...

    @overload
    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, raw: Literal[True]
    ) -> bytes: ...

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, raw: bool = False
    ) -> JSON | bytes:
        """One object, read by its own URL (the right to ``get`` is enough); ``raw``: its bytes. NotFound is raised,
        KindNotServed when the whole kind is missing."""
        response = await self.request("GET", resource.object_path(namespace, name))
        return response.content if raw else response.json()

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
    ) -> ObjectList:
        """All objects of one consistent list, with the version to watch from. ``page_size`` 0: in one page."""
        items: list[JSON] = []
        version = ""
        stream = self.pages(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            page_size=page_size,
            on_restart=items.clear,
        )
        async with aclosing(stream):
            async for page in stream:
                version = page.resource_version
                for raw in page.items:
                    item: JSON = msgspec.json.decode(raw)
                    # Lists of built-in kinds leave both out of their items.
                    item.setdefault("apiVersion", resource.api_version)
                    item.setdefault("kind", resource.kind)
                    items.append(item)
        return ObjectList(items, version)

    def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
        on_restart: Callable[[], None] | None = None,
    ) -> AsyncGenerator[RawPage, None]:
        """The pages of one list, items as raw bytes (without apiVersion and kind for built-in kinds).

        When the list outlives its continue token, ``on_restart`` is called and the list starts again: drop what you
        have. Without it, Expired is raised.
        """
        return listing.pages(
            self._caller,
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            page_size=page_size,
            on_restart=on_restart,
        )

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """The events of one watch request after ``resource_version``, bookmarks included; wrap it in ``aclosing``.

        Ends when the server ends it. Raises Expired (list again), the ApiError of another ERROR event, or Disconnected.
        ``timeout_seconds`` None: by the settings, spread at random. ``on_open``: called when the server accepted it.
        """
        return watch.watch(
            self._caller,
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
            on_open=on_open,
        )
