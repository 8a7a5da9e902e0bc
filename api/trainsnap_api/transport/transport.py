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
from typing import TYPE_CHECKING, Literal

from trainsnap_api.transport.call import APPLY, JSON_PATCH, MERGE_PATCH, Caller, base_headers
from trainsnap_api.transport.credentials import Credentials, source
from trainsnap_api.transport.engine import Engine
from trainsnap_api.transport.errors import ConfigurationError, Disconnected, Unauthorized
from trainsnap_api.transport.limiter import TokenBucket
from trainsnap_api.transport.proxy import proxy_for
from trainsnap_api.transport.reading import Reads
from trainsnap_api.transport.resources import SERVICE_ACCOUNT, Resource
from trainsnap_api.transport.response import JSON, ServiceAccountToken
from trainsnap_api.transport.settings import TransportSettings
from trainsnap_api.transport.writing import delete_options, name_of, namespace_of, typed, write_params

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from trainsnap_api.transport.credentials import TokenProvider
    from trainsnap_api.transport.kubeconfig import KubeconfigSource

PROBE_SECONDS = 10.0
"""How long a server may take for its first answer, retries included, before it counts as unreachable."""


class Transport(Reads):
    """A connection to one cluster with one identity. Made by ``connect``; closed by ``aclose`` or ``async with``."""

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
