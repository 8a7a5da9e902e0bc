# SPDX-License-Identifier: Apache-2.0
"""What one operator process is made of, as values. Made by the command line, used to put the parts together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from trainsnap_api.transport import Resource, Transport
from trainsnap_controller.cache import Cache, Store
from trainsnap_controller.config import Configuration
from trainsnap_controller.manager import HttpServer, Manager
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.observe.tracing import Tracing
from trainsnap_controller.runtime.framework import Framework
from trainsnap_controller.webhooks.certs_manager import CertManager

JSON = dict[str, Any]
OFF: Final = "0"
"""The address that switches a server off."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process.

    ``api`` is the connection of the controllers; ``namespace`` is the operator's own; ``identity`` names this process
    in the Lease and in events; ``installed`` are those kinds, of the ones that plugins can do without, that the
    cluster has.
    """

    api: Transport
    config: Configuration
    namespace: str
    identity: str
    metrics: Metrics
    framework: Framework
    installed: Collection[Resource]
    tracing: Tracing

    @property
    def opaque_kinds(self) -> Mapping[str, Resource]:
        """Runtime kinds of other controllers, by ``Kind.group``."""
        return {
            f"{kind.kind}.{kind.group}": Resource(kind.group, kind.version, kind.kind, kind.plural, kind.namespaced)
            for kind in self.config.snapshots.opaque_runtimes
        }


@dataclass(frozen=True, slots=True)
class Running:
    """The parts that others are added to: what starts and stops them, the cached objects, and whether this process may
    write at this moment."""

    manager: Manager
    cache: Cache
    allowed: Callable[[], bool]

    def store(self, resource: Resource) -> Store | None:
        """The cached objects of a kind; None when the kind is not watched."""
        return next((i.store for i in self.cache.informers if i.resource is resource), None)

    def remember(self, resource: Resource, obj: JSON) -> None:
        """Show the API server's answer to a write of ours to the cache, if the kind is watched."""
        store = self.store(resource)
        if store is not None:
            store.observe_write(obj)


class Registration(Protocol):
    """Tells the API server about the webhooks, where no manifest does."""

    async def register(self, port: int) -> None:
        """Return when the API server reaches them."""
        ...

    async def unregister(self) -> None:
        """Called before the server stops: from here on nothing may depend on it."""
        ...


@dataclass(frozen=True, slots=True)
class Admission:
    """The webhooks of one process.

    ``api`` reads what they judge by: a connection of its own, without a limit of requests, so that a user's request
    never waits behind reconciles. ``address`` is where they listen.
    """

    api: Transport
    certificates: CertManager
    address: str
    registration: Registration | None = None


@dataclass(frozen=True, slots=True)
class Reporting:
    """The status server of one process, with the certificate of the webhooks.

    ``api`` writes with a rate limit of its own, so that chatty pods slow down nothing else; ``address`` is where it
    listens.
    """

    api: Transport
    address: str


@dataclass(frozen=True, slots=True)
class Servers:
    """The HTTP servers that are on, bound to their ports."""

    health: HttpServer | None
    metrics: HttpServer | None
    webhooks: HttpServer | None = None
    status: HttpServer | None = None
