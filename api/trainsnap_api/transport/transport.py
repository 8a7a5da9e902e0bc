# SPDX-License-Identifier: Apache-2.0
"""The one way to an API server: verbs on kinds of the static table, in and out as plain JSON objects.

Used by the client and by every part of the controller that reads or writes the cluster. It keeps no objects, starts no
tasks, never lists again by itself (that is the reflector's) and never applies defaults.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import random as random_module
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec

from trainsnap_api.transport import listing, paths, watch
from trainsnap_api.transport.call import APPLY, JSON_PATCH, MERGE_PATCH, Call, Caller, base_headers, query
from trainsnap_api.transport.credentials import Credentials, source
from trainsnap_api.transport.engine import Engine
from trainsnap_api.transport.errors import ConfigurationError, Disconnected, NotFound, Unauthorized
from trainsnap_api.transport.limiter import TokenBucket
from trainsnap_api.transport.proxy import proxy_for
from trainsnap_api.transport.resources import SERVICE_ACCOUNT, Resource
from trainsnap_api.transport.response import JSON, ObjectList, RawPage, Response, ServiceAccountToken, WatchEvent
from trainsnap_api.transport.settings import TransportSettings
from trainsnap_api.transport.writing import delete_options, name_of, namespace_of, typed, write_params

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from trainsnap_api.transport.call import Params
    from trainsnap_api.transport.credentials import TokenProvider
    from trainsnap_api.transport.kubeconfig import KubeconfigSource

_CONTENT_TYPE = "application/json"
PROBE_SECONDS = 10.0
"""How long a server may take for its first answer, retries included, before it counts as unreachable."""
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
_REPEATABLE_PATCHES = frozenset({APPLY, MERGE_PATCH})


class Transport:
    """A connection to one cluster with one identity. Made by ``connect``; closed by ``aclose`` or ``async with``."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: KubeconfigSource | None = None,
        context: str | None = None,
        in_cluster: bool = False,
        settings: TransportSettings | None = None,
        token_provider: TokenProvider | None = None,
        probe: bool = False,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
    ) -> Transport:
        """Reads the credentials and builds the connection pools; ConfigurationError with one clear line.

        ``kubeconfig``: a file, or its content; None: ``$KUBECONFIG``, ``~/.kube/config``, or the pod's service account.
        ``token_provider``: a function (plain or async) that gives a bearer token. It is asked again when the last
        answer is ``token_max_age`` old and after a 401. The kubeconfig then only says where the cluster is; its user is
        not used at all. ``probe``: also ask the server for its version, and raise when it is unreachable or refuses us.
        """
        settings = settings or TransportSettings()
        credentials = Credentials(
            source(kubeconfig, context, in_cluster=in_cluster, environ=environ),
            token_provider=token_provider,
            token_max_age=settings.token_max_age,
            environ=environ,
            clock=clock,
            wall_clock=wall_clock,
        )
        await credentials.load()
        server = credentials.access.server
        proxy = credentials.proxy or proxy_for(server, environ)
        if proxy and not proxy.startswith(("http://", "https://")):
            # Without the rest, which may hold a password.
            scheme = proxy.partition("://")[0]
            raise ConfigurationError(
                f"{credentials.access.origin}: only http and https proxies are supported: {scheme}"
            )
        engine = Engine(
            server,
            proxy=proxy,
            server_hostname=credentials.tls_server_name,
            headers=base_headers(settings.user_agent or _user_agent(), credentials.headers),
            connect_timeout=settings.connect_timeout,
            max_requests=settings.max_concurrent_requests,
            max_watches=settings.max_watches,
        )
        limiter = TokenBucket(settings.qps, settings.burst, clock=clock, sleep=sleep)
        caller = Caller(
            engine, credentials, settings, limiter, clock=clock, wall_clock=wall_clock, sleep=sleep, random=random
        )
        transport = cls(caller)
        if probe:
            await transport._probe()
        return transport

    async def _probe(self) -> None:
        try:
            await self.request("GET", "/version", timeout=PROBE_SECONDS)
        except Disconnected as error:
            await self.aclose()
            raise ConfigurationError(str(error)) from error
        except Unauthorized as error:
            await self.aclose()
            raise ConfigurationError(
                f"{self._caller.credentials.access.origin}: {self.server} does not accept the credentials: {error}"
            ) from error
        except BaseException:
            await self.aclose()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections; running calls and watches end with Disconnected. May be called twice."""
        await self._caller.engine.aclose()

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

    # -- writing ------------------------------------------------------------------------------------------------------

    async def create(
        self,
        resource: Resource,
        obj: JSON,
        *,
        field_validation: str | None = "Strict",
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> JSON:
        """POST to the collection. Never repeated once it may have been sent, unless it is a dry run: Disconnected then
        says ``sent``."""
        params = write_params(field_validation, field_manager, dry_run)
        path = resource.path(namespace_of(resource, obj))
        body = typed(resource, obj)
        return (await self.request("POST", path, params=params, body=body, idempotent=dry_run)).json()

    async def apply(
        self,
        resource: Resource,
        obj: JSON,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
        field_validation: str | None = "Strict",
        dry_run: bool = False,
    ) -> JSON:
        """Server-side apply: creates the object, or sets exactly the fields that ``obj`` holds and ``field_manager``
        owns. Without ``force`` a field of another manager is a Conflict."""
        params = {**write_params(field_validation, field_manager, dry_run), "force": force}
        path = resource.object_path(namespace_of(resource, obj), name_of(obj), subresource)
        body = typed(resource, obj)
        return (await self.request("PATCH", path, params=params, body=body, content_type=APPLY)).json()

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: JSON,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        field_validation: str | None = None,
        dry_run: bool = False,
    ) -> JSON:
        """JSON merge patch: null removes a field, lists are replaced. A ``metadata.resourceVersion`` in it makes the
        write conditional (Conflict)."""
        params = write_params(field_validation, field_manager, dry_run)
        path = resource.object_path(namespace, name, subresource)
        return (await self.request("PATCH", path, params=params, body=body, content_type=MERGE_PATCH)).json()

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        operations: Sequence[JSON],
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        field_validation: str | None = None,
        dry_run: bool = False,
    ) -> JSON:
        """JSON patch (RFC 6902). Not repeated once it may have been sent: adding to a list twice adds twice."""
        params = write_params(field_validation, field_manager, dry_run)
        path = resource.object_path(namespace, name, subresource)
        return (
            await self.request(
                "PATCH", path, params=params, body=operations, content_type=JSON_PATCH, idempotent=dry_run
            )
        ).json()

    async def replace(
        self,
        resource: Resource,
        obj: JSON,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        field_validation: str | None = None,
        dry_run: bool = False,
    ) -> JSON:
        """PUT of the whole object; conditional when it carries its ``metadata.resourceVersion`` (Conflict)."""
        params = write_params(field_validation, field_manager, dry_run)
        path = resource.object_path(namespace_of(resource, obj), name_of(obj), subresource)
        body = typed(resource, obj)
        return (await self.request("PUT", path, params=params, body=body, idempotent=dry_run)).json()

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Asks for the deletion of one object; with ``uid`` or ``resource_version`` of that very one (else Conflict).
        Returns when the server has accepted it: finalizers may keep the object for longer."""
        conditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in conditions.items() if value is not None}
        options = delete_options(
            preconditions=preconditions, propagation=propagation, grace_period=grace_period, dry_run=dry_run
        )
        path = resource.object_path(namespace, name)
        await self.request("DELETE", path, body=options, idempotent=bool(preconditions) or dry_run)

    async def service_account_token(
        self, name: str, namespace: str, *, seconds: int = 3600, audiences: Sequence[str] = ()
    ) -> ServiceAccountToken:
        """A new token for a ServiceAccount by the TokenRequest API (the right to ``create serviceaccounts/token``)."""
        body: JSON = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds, "audiences": [*audiences]},
        }
        # A second token does no harm, so this POST may be repeated.
        path = SERVICE_ACCOUNT.object_path(namespace, name, "token")
        status = (await self.request("POST", path, body=body, idempotent=True)).json().get("status") or {}
        return ServiceAccountToken(status["token"], status["expirationTimestamp"])


def _user_agent() -> str:
    try:
        return f"trainsnap/{importlib.metadata.version('trainsnap')}"
    except importlib.metadata.PackageNotFoundError:
        return "trainsnap/0"
