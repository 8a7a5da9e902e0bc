# SPDX-License-Identifier: Apache-2.0
"""The verbs on one kind, with its own class in and out. Reached through ``AsyncClient``; the sync twin is generated.

Every method takes ``timeout``, the seconds for the whole call, retries included (TimedOut); None: the transport's own
limits. What the server refuses is raised in its own words, see ``trainsnap_api.client.errors``.
"""

# ruff: noqa: ASYNC109 - a limit for the whole call belongs to the interface, which has a sync twin

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from trainsnap_api.base import Kind, Model
from trainsnap_api.client.errors import TimedOut
from trainsnap_api.client.kinds import RESOURCES, class_of, document, name_of, read
from trainsnap_api.client.values import Event, Listing, Page
from trainsnap_api.client.watching import Watching
from trainsnap_api.dumping import plain

if TYPE_CHECKING:
    from trainsnap_api.transport import JSON, RawPage, Transport

T = TypeVar("T", bound=Kind)

FieldValidation = Literal["Strict", "Warn", "Ignore"]
Propagation = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What every part of one client shares."""

    transport: Transport
    field_manager: str
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]


class AsyncKind(Generic[T]):
    """One kind of the API. ``namespace`` None means the client's own; cluster kinds have none."""

    def __init__(self, connection: Connection, model: type[T], namespace: str) -> None:
        self._connection = connection
        self._transport = connection.transport
        self._model = model
        self._resource = RESOURCES[class_of(model)]
        self._namespace = namespace if self._resource.namespaced else None

    # -- reading ------------------------------------------------------------------------------------------------------

    async def get(self, name: str, namespace: str | None = None, *, timeout: float | None = None) -> T:
        """One object. Raises NotFound; KindNotServed when the whole kind is missing on the server."""
        async with self._within(timeout, f"get {name}"):
            content = await self._transport.get(self._resource, name_of(name), self._space(namespace), raw=True)
            return self._read(content)

    async def list(
        self,
        namespace: str | None = None,
        *,
        all_namespaces: bool = False,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
        timeout: float | None = None,
    ) -> Listing[T]:
        """All objects of one consistent list, read in pages of ``page_size`` (0: in one)."""
        found: Listing[T] = Listing()
        stream = self._transport.pages(
            self._resource,
            self._space(namespace, all_namespaces),
            label_selector=label_selector,
            field_selector=field_selector,
            page_size=page_size,
            on_restart=found.clear,
        )
        async with self._within(timeout, "list"), aclosing(stream):
            async for page in stream:
                found.extend(self._items(page))
                found.resource_version = page.resource_version
        return found

    async def pages(
        self,
        namespace: str | None = None,
        *,
        all_namespaces: bool = False,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
    ) -> AsyncGenerator[Page[T], None]:
        """The pages of one consistent list as they arrive. Expired when the caller takes longer than the server keeps
        the list (about five minutes)."""
        stream = self._transport.pages(
            self._resource,
            self._space(namespace, all_namespaces),
            label_selector=label_selector,
            field_selector=field_selector,
            page_size=page_size,
        )
        async with aclosing(stream):
            async for page in stream:
                yield Page(self._items(page), page.resource_version, page.remaining)

    async def iterate(
        self,
        namespace: str | None = None,
        *,
        all_namespaces: bool = False,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
    ) -> AsyncGenerator[T, None]:
        """The objects of one consistent list, one by one, with one page in memory. Expired as for ``pages``."""
        stream = self.pages(
            namespace,
            all_namespaces=all_namespaces,
            label_selector=label_selector,
            field_selector=field_selector,
            page_size=page_size,
        )
        async with aclosing(stream):
            async for page in stream:
                for item in page.items:
                    yield item

    async def watch(
        self,
        namespace: str | None = None,
        *,
        all_namespaces: bool = False,
        name: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        since: Listing[T] | str | None = None,
        timeout: float | None = None,
        give_up_after: float | None = None,
    ) -> AsyncGenerator[Event[T], None]:
        """Changes as they happen, over every interruption; no state is lost or repeated without the event saying so.

        ``since``: None: what is there comes first, as ADDED with origin ``list``; a Listing: what changed after it; a
        resourceVersion: the same, but nothing is known of what was there, so Expired is raised once the server has
        forgotten that version. ``timeout``: ends normally after so many seconds. ``give_up_after``: seconds without any
        answer after which the last error is raised (None: it goes on trying). What waiting cannot heal is raised at
        once: Unauthorized, Forbidden, KindNotServed, BadRequest. Close it when leaving early.
        """
        if name is not None:
            # A comma in it would begin another condition.
            escaped = re.sub(r"[\\,=]", r"\\\g<0>", name_of(name))
            field_selector = f"metadata.name={escaped}" + (f",{field_selector}" if field_selector else "")
        connection = self._connection
        watching = Watching(
            self._transport,
            self._resource,
            self._space(namespace, all_namespaces),
            self._read,
            label_selector=label_selector,
            field_selector=field_selector,
            end=None if timeout is None else connection.clock() + timeout,
            give_up_after=give_up_after,
            clock=connection.clock,
            sleep=connection.sleep,
            random=connection.random,
        )
        async with aclosing(watching.run(since, lambda obj: msgspec.json.encode(obj.dump()))) as events:
            async for event in events:
                yield event

    # -- writing ------------------------------------------------------------------------------------------------------

    async def create(
        self,
        obj: T | Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
        field_validation: FieldValidation = "Strict",
        timeout: float | None = None,
    ) -> T:
        """POST; returns what was stored, defaults included. Raises AlreadyExists, Invalid with the causes per field,
        UnknownFields. Never sent twice: after Disconnected with ``sent`` look whether it is there."""
        return await self._write(
            "POST", obj, namespace, "create", timeout, dry_run=dry_run, field_validation=field_validation
        )

    async def apply(
        self,
        obj: T | Mapping[str, Any],
        *,
        namespace: str | None = None,
        force: bool = False,
        field_manager: str | None = None,
        dry_run: bool = False,
        field_validation: FieldValidation = "Strict",
        timeout: float | None = None,
    ) -> T:
        """Server-side apply: creates the object or sets exactly these fields, and takes back those of an earlier apply
        that are not here. Conflict when another manager owns one of them, unless ``force``. For an object as it was
        written: one that was read (with ``managedFields``) is a BadRequest."""
        body = document(self._resource, self._model, obj, namespace, self._namespace)
        async with self._within(timeout, "apply"):
            stored = await self._transport.apply(
                self._resource,
                body,
                field_manager=field_manager or self._connection.field_manager,
                force=force,
                dry_run=dry_run,
                field_validation=field_validation,
            )
        return self._of(stored)

    async def replace(
        self,
        obj: T | Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
        field_validation: FieldValidation = "Strict",
        timeout: float | None = None,
    ) -> T:
        """PUT of the whole object, as it was read and changed. Conflict when its resourceVersion is not the latest,
        Invalid when it has none."""
        return await self._write(
            "PUT", obj, namespace, "replace", timeout, dry_run=dry_run, field_validation=field_validation
        )

    async def patch(
        self,
        name: str,
        patch: Model | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
        field_validation: FieldValidation = "Strict",
        timeout: float | None = None,
    ) -> T:
        """A mapping, or a model of which only some fields are set, is a merge patch (None removes a field, lists are
        replaced); a sequence is a JSON patch (RFC 6902)."""
        options: JSON = {
            "subresource": subresource,
            "field_manager": self._connection.field_manager,
            "field_validation": field_validation,
            "dry_run": dry_run,
        }
        if isinstance(patch, str) or not isinstance(patch, Model | Mapping | Sequence):
            raise TypeError(f"a model, a mapping or a list of operations is needed, not {type(patch).__name__}")
        send = self._transport.merge_patch if isinstance(patch, Model | Mapping) else self._transport.json_patch
        place = name_of(name), self._space(namespace)
        async with self._within(timeout, f"patch {name}"):
            return self._of(await send(self._resource, *place, plain(patch), **options))

    async def delete(
        self,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Asks for the deletion; with ``uid`` or ``resource_version`` of that very object (else Conflict). Returns when
        the server has accepted it: finalizers may keep the object for longer."""
        name, space = name_of(name), self._space(namespace)
        async with self._within(timeout, f"delete {name}"):
            await self._transport.delete(
                self._resource,
                name,
                space,
                uid=uid,
                resource_version=resource_version,
                propagation=propagation,
                grace_period=grace_period,
                dry_run=dry_run,
            )

    # -- inside -------------------------------------------------------------------------------------------------------

    def _space(self, namespace: str | None, everywhere: bool = False) -> str | None:
        """The namespace of a call; None for cluster kinds and for all namespaces."""
        if not self._resource.namespaced:
            if namespace is not None:
                raise ValueError(f"{self._resource.kind} has no namespace")
            return None
        if everywhere and namespace is not None:
            raise ValueError("namespace and all_namespaces cannot both be given")
        return None if everywhere else self._namespace if namespace is None else namespace

    async def _write(
        self, method: str, obj: T | Mapping[str, Any], namespace: str | None, what: str, timeout: float | None,
        *, dry_run: bool, field_validation: FieldValidation,
    ) -> T:  # fmt: skip
        body = document(self._resource, self._model, obj, namespace, self._namespace)
        send = self._transport.create if method == "POST" else self._transport.replace
        async with self._within(timeout, what):
            stored = await send(
                self._resource,
                body,
                field_manager=self._connection.field_manager,
                dry_run=dry_run,
                field_validation=field_validation,
            )
        return self._of(stored)

    def _items(self, page: RawPage) -> Sequence[T]:
        return [self._read(bytes(raw)) for raw in page.items]

    def _read(self, content: bytes) -> T:
        return read(self._model, content, self._resource.kind)

    def _of(self, stored: JSON) -> T:
        return read(self._model, msgspec.json.encode(stored), self._resource.kind)

    @contextlib.asynccontextmanager
    async def _within(self, seconds: float | None, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds) as scope:
                yield
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise TimedOut(f"{what} of {self._resource.name}: not within {seconds:g} s") from error
